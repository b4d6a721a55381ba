"""The words in which `sqs_model.py` describes SQS's requests and answers.

A shape is one type of the wire.  Both protocols are read and written by walking these values, so
that a member which Amazon adds needs no code here, only a fresh table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """A string; `enum` lists the values that Amazon documents."""

    enum: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes; base64 on both wires."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of so many bits."""

    bits: int


@dataclass(frozen=True, slots=True)
class Truth:
    """true or false."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """Several of one shape; the query protocol repeats `name`, numbered from 1."""

    item: str
    name: str


@dataclass(frozen=True, slots=True)
class MapOf:
    """Pairs; the query protocol has an element with two children for each."""

    key: str
    value: str
    key_name: str
    value_name: str


@dataclass(frozen=True, slots=True)
class Member:
    """One field of a structure, and its name in the query protocol."""

    shape: str
    query_name: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Structure:
    """Named members."""

    members: dict[str, Member] = field(default_factory=dict)


Shape: TypeAlias = Text | Blob | Whole | Truth | ListOf | MapOf | Structure


@dataclass(frozen=True, slots=True)
class Action:
    """What a client may ask for."""

    input: str
    output: str | None
    errors: tuple[str, ...]

"""The query protocol's requests: flat parameters that become the same structs as JSON's.

Action=SendMessage&MessageBody=hi&MessageAttribute.1.Name=city&MessageAttribute.1.Value.…
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import parse_qsl

import msgspec

from penstock.sqs import errors, limits
from penstock.sqs.model import ACTIONS, SHAPES
from penstock.sqs.shapes import Blob, ListOf, MapOf, Shape, Structure, Text, Truth, Whole
from penstock.sqs.wire.types import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Tree = dict[str, Any]
# Message attributes are the deepest: entry, number, attribute, number, Value, StringValue.
_DEEPEST = 10
# Amazon's older list notation has a word between the name and the number.
_FILLERS = ("member", "entry")
_LONGEST_NUMBER = 9


def parameters(text: str) -> dict[str, str]:
    """The parameters of a query string or form; of a repeated one the last."""
    try:
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            strict_parsing=False,
            errors="strict",
            max_num_fields=limits.MOST_PARAMETERS,
        )
    except ValueError:
        raise errors.malformed("The parameters can't be read.") from None
    return dict(pairs)


def read(action: str, given: Mapping[str, str]) -> Any:
    """The request as a struct of the action's input shape."""
    shape = ACTIONS[action].input
    value = _value(SHAPES[shape], _tree(given)) or {}
    try:
        return msgspec.convert(value, type_of(shape), strict=False)
    except msgspec.ValidationError as problem:
        raise errors.malformed(str(problem)) from None


def _tree(given: Mapping[str, str]) -> Tree:
    """Nest parameters by the dots of their names; a value lies under the empty name."""
    root: Tree = {}
    for name, value in given.items():
        # The empty name is where values lie, so no branch may have it.
        parts = [part for part in name.split(".", _DEEPEST) if part and part not in _FILLERS]
        branch = root
        for part in parts:
            branch = branch.setdefault(part, {})
        branch[""] = value
    return root


def _value(shape: Shape, tree: Tree) -> Any:
    match shape:
        case Text() | Blob() | Whole() | Truth():
            return tree.get("")
        case ListOf(item, _):
            return [_value(SHAPES[item], each) for each in _numbered(tree)]
        case MapOf():
            return _map(shape, tree)
        case Structure(members):
            found = {
                name: _value(SHAPES[member.shape], _branch(tree, name, member.query_name))
                for name, member in members.items()
                if name in tree or member.query_name in tree
            }
            return {name: value for name, value in found.items() if value is not None}
        case other:
            assert_never(other)


def _branch(tree: Tree, name: str, query_name: str) -> Tree:
    # Some clients write the plural name of the JSON protocol: Tags.1.Key.
    found: Tree = tree.get(query_name) or tree[name]
    return found


def _map(shape: MapOf, tree: Tree) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for each in _numbered(tree):
        key = each.get(shape.key_name, {}).get("")
        if key is not None:
            pairs[key] = _value(SHAPES[shape.value], each.get(shape.value_name, {}))
    # A pair without a value is refused by the one who knows what it is for.
    return {key: value for key, value in pairs.items() if value is not None}


def _numbered(tree: Tree) -> list[Tree]:
    """The elements in the order of their numbers; a lone value without one is a list of it."""
    digits = [part for part in tree if part.isascii() and part.isdigit()]
    if any(len(part) > _LONGEST_NUMBER for part in digits):
        raise errors.malformed("The number of an element is too long.")
    numbers = sorted((int(part), part) for part in digits)
    if not numbers and "" in tree:
        return [tree]
    return [tree[part] for _, part in numbers]

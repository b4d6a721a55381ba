"""Inputs by the thousand: samples bent, cut, doubled and stuffed with what has broken parsers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

# What has broken somebody's parser before.
HOSTILE = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\u0000",
    b"%00",
    b"%ff",
    b"%",
    b"..",
    b".",
    b"&",
    b"=",
    b"+",
    b"\r\n",
    b"\t",
    b"-0",
    b"-1",
    b"1e999",
    b"NaN",
    b"Infinity",
    b"9" * 25,
    b"9" * 5000,
    b"0" * 5000,
    b"[" * 2000,
    b'{"a":' * 1500,
    b"*" * 60,
    b"?*" * 40,
    b"a" * 70_000,
    "\u202e\ufeff\U0001f4a3".encode(),
    "٣".encode(),
    "²".encode(),
    b"${jndi:x}",
    b"{0.__class__}",
    b"%s%n",
    b"'; drop table x; --",
    b"../../etc/passwd",
    b"~nobody-here/x",
    b"20260230T250000Z",
    b"0001-01-01T00:00:00",
    b"9999-12-31T23:59:59-23:59",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    10**400,
    1.5,
    1e308,
    "",
    "\0",
    "\ud800",
    "x" * 5000,
    "9" * 5000,
    "99999999999999999999",
    [],
    {},
    [[]],
    {"": ""},
    {"$ref": "#"},
    "*" * 60,
    "\\u0000",
)
_TREE_SHARE = 0.4
_MOST_STEPS = 4
_LARGEST = 200_000
_DEEPEST = 1500


def inputs(samples: Sequence[bytes], luck: random.Random) -> Iterator[bytes]:
    """Inputs without end; one seed gives the same ones."""
    trees = [tree for tree in map(_tree, samples) if tree is not None]
    while True:
        if trees and luck.random() < _TREE_SHARE:
            head, tree = luck.choice(trees)
            yield head + _dumped(_bent(tree, luck))
        else:
            data = luck.choice(samples)
            for _ in range(luck.randint(1, _MOST_STEPS)):
                data = luck.choice(_STEPS)(data, luck)
            yield data[:_LARGEST]


def _tree(sample: bytes) -> tuple[bytes, Any] | None:
    """A sample that is JSON, perhaps behind a byte that chooses something."""
    for head in (0, 1):
        try:
            return sample[:head], json.loads(sample[head:])
        except ValueError:
            continue
    return None


def _dumped(value: Any) -> bytes:
    # Lone surrogates go as escapes, as a hostile client writes them.
    return json.dumps(value).encode()


def _bent(value: Any, luck: random.Random) -> Any:
    """The same value with something wrong somewhere."""
    if isinstance(value, dict) and value and luck.random() < 0.8:
        name = luck.choice(list(value))
        changed = {**value, name: _bent(value[name], luck)}
        match luck.randrange(6):
            case 0:
                changed.pop(name)
            case 1:
                changed[str(luck.choice(VALUES))] = changed.pop(name)
            case _:
                pass
        return changed
    if isinstance(value, list) and value and luck.random() < 0.8:
        place = luck.randrange(len(value))
        return [*value[:place], _bent(value[place], luck), *value[place:]]
    if luck.random() < 0.05:
        return _deep(luck.randint(1, _DEEPEST), luck.choice(VALUES))
    return luck.choice(VALUES)


def _deep(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = [value]
    # Deeper than json writes: the byte steps have their own.
    return value if depth < 900 else ["ü", value] if depth < 950 else "deep"


def _flip(data: bytes, luck: random.Random) -> bytes:
    if not data:
        return data
    place = luck.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << luck.randrange(8)]) + data[place + 1 :]


def _replace(data: bytes, luck: random.Random) -> bytes:
    place, end = _span(data, luck)
    return data[:place] + luck.choice(HOSTILE) + data[end:]


def _insert(data: bytes, luck: random.Random) -> bytes:
    place = luck.randint(0, len(data))
    return data[:place] + luck.choice(HOSTILE) + data[place:]


def _cut(data: bytes, luck: random.Random) -> bytes:
    place, end = _span(data, luck)
    return data[:place] + data[end:]


def _double(data: bytes, luck: random.Random) -> bytes:
    place, end = _span(data, luck)
    return data[:end] + data[place:end] * luck.choice((1, 1, 1, 50)) + data[end:]


def _shuffle(data: bytes, luck: random.Random) -> bytes:
    """The pieces between two separators in another order."""
    separator = luck.choice((b"&", b",", b".", b"=", b"\n", b" "))
    parts = data.split(separator)
    luck.shuffle(parts)
    return separator.join(parts)


def _noise(data: bytes, luck: random.Random) -> bytes:
    place = luck.randint(0, len(data))
    return data[:place] + luck.randbytes(luck.randint(1, 8)) + data[place:]


def _span(data: bytes, luck: random.Random) -> tuple[int, int]:
    place = luck.randint(0, len(data))
    return place, min(len(data), place + luck.choice((1, 2, 5, 20)))


_STEPS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _replace,
    _insert,
    _cut,
    _double,
    _shuffle,
    _noise,
)

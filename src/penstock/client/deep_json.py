"""JSON deeper than Python's readers go.

They call themselves for each level and stop at about a thousand; PostgreSQL stores several
thousand.  One such message must not stop the whole batch it came with, so it is read here, without
calls: what its handler can do with it is the handler's affair.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# A bracket, a text, or a number or word.  Commas and colons tell nothing that the order does not.
_TOKEN = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*+"|[^\s\[\]{},:"]+', re.DOTALL)


def decode(text: str, whole: Callable[[str], int | float] = int) -> Any:
    """The value of a text that is JSON, which is not checked: the database has written it."""
    root: list[Any] = []
    # Each open list or object, and the name whose value an object waits for.
    nested: list[tuple[Any, list[str]]] = [(root, [])]
    for piece in _TOKEN.findall(text):
        match piece:
            case "]" | "}":
                nested.pop()
            case "[" | "{":
                made: Any = [] if piece == "[" else {}
                _put(nested[-1], made)
                nested.append((made, []))
            case _:
                _put(nested[-1], json.loads(piece, parse_int=whole))
    return root[0]


def _put(into: tuple[Any, list[str]], value: Any) -> None:
    holder, name = into
    if isinstance(holder, list):
        holder.append(value)
    elif name:
        holder[name.pop()] = value
    else:
        name.append(value)

"""What is refused before a byte of it is parsed."""

from __future__ import annotations

import re

from penstock.sqs import errors

# A batch may hold 1 MiB of text.  As JSON each byte may take six ("\u0007"), percent-encoded three;
# what makes sense in practice is far below.
LARGEST_BODY = 8 * 1024 * 1024
# SQS's own requests nest five deep.
DEEPEST = 32
# Ten entries with ten attributes each of four fields, and room.
MOST_PARAMETERS = 2000
LONGEST_PATH = 2048
LONGEST_QUERY = 64 * 1024

# A string, to its end or to the body's: one without an end must not be looked for again from each
# of its quotes.  Or a bracket.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)


def check_depth(body: bytes) -> None:
    """Refuse JSON that nests too deep for any request of SQS."""
    # Brackets inside strings count here, so a message that is JSON itself takes the long way.
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return
    depth = 0
    # One by one: lists of them would be larger than the body.
    for found in _TOKENS.finditer(body):
        token = found[0]
        if token in b"[{":
            depth += 1
        elif token in b"]}":
            depth -= 1
        if depth > DEEPEST:
            raise errors.malformed("The request nests too deep.")


def check_encoding(encoding: str) -> None:
    """Refuse compressed bodies: a small one may unpack to a very large one."""
    if encoding.strip().lower() not in ("", "identity"):
        raise errors.unsupported_encoding()

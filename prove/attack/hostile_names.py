"""Names that nobody should be able to do harm with."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

# Any of these would make a topic named `pwned` where a name is written into SQL.
INJECTIONS = (
    "x' || penstock.create_topic('pwned') || '",
    "x'); select penstock.create_topic('pwned'); --",
    "x'::text); select penstock.create_topic('pwned')--",
    "x\"; select penstock.create_topic('pwned'); --",
    "x\\'; select penstock.create_topic('pwned'); --",
    "$$ || penstock.create_topic('pwned') || $$",
    "x' union select penstock.create_topic('pwned')::text --",
    "'||(select penstock.create_topic('pwned'))||'",
    "1; drop schema penstock_data cascade; --",
    "'; drop table mq_tasks; --",
    "x'/**/or/**/1=1--",
    "\\'; copy (select 1) to program 'true'; --",
)
_CRAFTED = (
    *INJECTIONS,
    *("", " ", "   ", ".", "..", "-", "--", "--help", "-f", "*", "%", "_", "%%", "?", "/", "//"),
    *("../../../etc/passwd", "..\\..\\x", "/etc/passwd", "file:///etc/passwd", "~root", "$HOME"),
    *("`true`", "$(true)", "a|b", "a;b", "a&b", "a>b", "a\tb", "a\nb", "a\r\nb", "a\0b", "\0"),
    *("%s", "%n%n%n", "%(x)s", "{}", "{0}", "{0.__class__}", "{x!r}", "${x}", "#{x}", "{{7*7}}"),
    *("<script>alert(1)</script>", '"><img src=x onerror=x>', "javascript:x", "&lt;", "]]>"),
    *("=cmd|' /C calc'!A0", "@SUM(1)", "+1", "null", "NULL", "None", "default", "public", "true"),
    *("penstock", "penstock_data.messages", "pg_catalog.pg_class", "pwned.", "information_schema"),
    *(
        "a\u202eb",
        "a\u200bb",
        "\ufeffa",
        "e\u0301",
        "\u00e9",
        "ﬁ",
        "\u017f",
        "\u0131",
        "İ",
        "ß",
        "ẞ",
        "\u212a",
    ),
    *("\u00a0", "\u2028", "a\u0085b", "\U0001f4a3", "\ud800", "a\udfffb", "\uffff", "\U0010ffff"),
    *(
        "\uff41",
        "\u0430",
        "\u0391",
        "١٢٣",
        "a\u0300\u0301\u0302",
        "\u0915\u094d\u0937\u093f",
        "你好",
        "مرحبا",
    ),
    *("queue:x", "channel", "a,b", "a b", "'", '"', "''", '""', "\\", "\\\\", "[", "]", "(", ")"),
    *("0", "-1", "1e999", "NaN", "0x41", "2026-01-01", "00000000-0000-0000-0000-000000000000"),
    *("canary", "CANARY", "canary ", " canary", "canary\u200b", "canary.fifo", "orders.fifo"),
    *("x" * 63, "x" * 64, "x" * 199, "x" * 200, "x" * 201, "x" * 10_000, "ü" * 200, "💣" * 200),
    "000000000000/us-east-1/canary",
    "arn:aws:sqs:us-east-1:000000000000:canary",
)
_PIECES = (
    "canary",
    "'",
    '"',
    ";",
    "--",
    "\\",
    "%s",
    "../",
    "\u202e",
    "\t",
    "💣",
    "{0}",
    "$$",
    "x" * 90,
)


def hostile_names(count: int, luck: random.Random) -> list[str]:
    """So many, each of them once; the crafted ones first."""
    controls = [f"c{chr(code)}c" for code in (*range(32), *range(127, 160))]
    found = dict.fromkeys((*_CRAFTED, *controls))
    for number in itertools.count():
        if len(found) >= count:
            return list(found)[:count]
        pieces = [luck.choice(_PIECES) for _ in range(luck.randint(2, 5))]
        found["".join([*pieces, str(number)])] = None
    raise AssertionError

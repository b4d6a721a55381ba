"""A few words of SVG.  Text of others is escaped here and nowhere else."""

from __future__ import annotations

from html import escape


def tag(name: str, *inside: str, **attributes: object) -> str:
    """`tag("rect", x=1, class_="bar")`; a trailing underscore is dropped, others become dashes."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{said}>{''.join(inside)}</{name}>" if inside else f"<{name}{said}/>"


def text(words: str, x: float, y: float, class_: str = "tick", anchor: str | None = None) -> str:
    return tag("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def hint(words: str) -> str:
    """What a browser shows when the pointer rests on the element."""
    return tag("title", escape(words))


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: list[tuple[float, float]], *, closed: bool = False) -> str:
    """The `d` of a line through the points."""
    steps = [
        f"{'M' if n == 0 else 'L'}{_number(x)} {_number(y)}" for n, (x, y) in enumerate(points)
    ]
    return "".join(steps) + ("Z" if closed else "")


def canvas(width: float, height: float, *inside: str, label: str) -> str:
    return tag(
        "svg",
        *inside,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        role="img",
        aria_label=label,
        xmlns="http://www.w3.org/2000/svg",
    )


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)

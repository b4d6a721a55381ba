"""A hundred hostile strings in every field that is shown: all of them stay text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from tests.dashboard.hostile import STRINGS
from tests.dashboard.visitor import Page, Visitor

if TYPE_CHECKING:
    from tests.sql.caller import Caller

TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "img", "nav"),
    *("div", "span", "button", "form", "input", "main", "footer", "dialog", "b", "small", "br"),
    *("h1", "h2", "h3", "p", "ul", "ol", "li", "dl", "dt", "dd", "pre", "code", "section"),
    *("table", "thead", "tbody", "tr", "th", "td", "label", "select", "option", "figure"),
    *("figcaption", "svg", "polygon", "polyline", "line", "text", "path", "g", "rect"),
}


def stocked(mq: Caller) -> dict[str, int]:
    """A queue per string, with the string in its name and in all that its messages carry."""
    letters = {}
    for number, words in enumerate(STRINGS):
        mq("create_queue", words, f"topic {words}", max_delivery_attempts=1)
        for _ in range(2):
            message = mq.publish(
                f"topic {words}",
                {words: [words]},
                key=words,
                headers=Jsonb({words: words}),
                correlation_id=words,
                tenant_id=words,
            )
        mq.consume(words, 2, token=words)
        mq.nack(words, message, token=words, error=words)
        letters[words] = message
        if number % 10 == 0:
            mq("create_reader", words, f"topic {words}")
            mq("record_action", words, words, words, Jsonb({"x": words}))
            key = f"schedule:{words}:2026-01-01T00:00:00+00:00"
            mq.publish(f"topic {words}", dedupe_key=key, dedupe_window="2 days")
    return letters


def assert_harmless(html: str, words: str) -> None:
    page = Page(html)
    assert page.tags <= TAGS, (words, page.tags - TAGS)
    assert not [name for name in page.attributes if name.startswith("on")], words
    assert page.sources == ["/static/penstock.js", "/static/gate.svg"], words
    for link in page.links:
        assert link.startswith(("/", "#")), (words, link)
        assert not link.startswith("//"), (words, link)


async def test_hostile_strings_stay_text_on_every_page(operator: Visitor, mq: Caller) -> None:
    letters = stocked(mq)
    dashboard = operator.app.state.dashboard
    dashboard.poller._slow.hurry()
    for path in ("/", "/workers", "/readers", "/schedules", "/audit", "/storage"):
        html = await operator.shown(path)
        assert_harmless(html, path)
        if path in ("/", "/workers"):
            text = Page(html).text
            assert all(words in text for words in STRINGS if len(words) < 26), path
    for words, message in letters.items():
        html = await operator.shown("/queue", name=words, state="dead", by="key", text=words)
        assert_harmless(html, words)
        assert Page(html).text.count(words) >= 4, words
        html = await operator.shown("/message", queue=words, id=message)
        assert_harmless(html, words)
        assert Page(html).text.count(words) >= 6, words
        html = await operator.shown("/confirm", action="purge", queue=words)
        assert_harmless(html, words)
        assert words in Page(html).text
    answer = await operator.get("/queue", name=f"nobody {STRINGS[0]}")
    assert_harmless(answer.text, "an unknown name")


async def test_hostile_strings_stay_text_in_live_updates(operator: Visitor, mq: Caller) -> None:
    for words in STRINGS[:20]:
        mq("create_queue", words, words)
    dashboard = operator.app.state.dashboard
    dashboard.poller.hurry()
    sample = await dashboard.poller.current()
    from penstock.dashboard.pages import overview, queue

    for html in (overview.regions(dashboard, sample), queue.regions(dashboard, sample, STRINGS[0])):
        page = Page(html)
        assert page.tags <= TAGS
        assert "script" not in page.tags
        assert not [name for name in page.attributes if name.startswith("on")]

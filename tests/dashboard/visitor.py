"""A browser without a screen: keeps cookies, finds the form's token, sends forms as pages do."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import httpx

from penstock.dashboard.app import build
from penstock.dashboard.dashboard_options import Options
from penstock.dashboard.pages import tasks
from penstock.settings import Settings
from penstock.tasks import StoreOptions, open_store

if TYPE_CHECKING:
    import pytest
    from starlette.applications import Starlette

BASE = "http://localhost:8710"
OPERATOR = "operator-token-of-the-tests"
VIEWER = "viewer-token-of-the-tests"
# No server listens there.
NOWHERE = "postgresql://nobody:secret-word@127.0.0.1:1/none"


def give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that are NOWHERE are not there after ten seconds either: look for a moment only."""

    def opened(dsn: str, options: StoreOptions) -> Any:
        moment = timedelta(seconds=0.1)
        short = replace(options, connect_timeout=moment) if dsn == NOWHERE else options
        return open_store(dsn, short)

    monkeypatch.setattr(tasks, "open_store", opened)


class Visitor:
    """Somebody at the dashboard's door."""

    def __init__(self, app: Starlette) -> None:
        self.app = app
        transport = httpx.ASGITransport(app=app)
        self.client = httpx.AsyncClient(transport=transport, base_url=BASE)

    @classmethod
    def of(cls, dsn: str, *, call_timeout: timedelta | None = None, **options: Any) -> Visitor:
        given = {"operator_token": OPERATOR, "viewer_token": VIEWER} | options
        settings = Settings.load({}, dsn=dsn, call_timeout=call_timeout)
        return cls(build(settings, Options(**given), every=0.05))

    async def close(self) -> None:
        await self.client.aclose()
        await self.app.state.dashboard.poller.stop()
        await self.app.state.dashboard.database.close()

    async def log_in(self, token: str = OPERATOR) -> Visitor:
        answer = await self.post("/login", token=token)
        assert answer.status_code == 303, answer.text
        return self

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.client.get(path, params=query or None)

    async def shown(self, path: str, **query: Any) -> str:
        """The text of a page that is there."""
        answer = await self.get(path, **query)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.text

    async def post(self, path: str, *, origin: str | None = BASE, **form: Any) -> httpx.Response:
        headers = {} if origin is None else {"Origin": origin}
        return await self.client.post(path, data=form, headers=headers)

    async def form_token(self) -> str:
        """From whatever form this visitor is shown."""
        pages = [await self.get("/audit"), await self.get("/confirm", action="pause", queue="q")]
        found = re.search(r'name="form_token" value="(\w+)"', "".join(page.text for page in pages))
        assert found is not None
        return found[1]

    async def act(self, action: str, queue: str, **more: Any) -> httpx.Response:
        """Read the question, then answer it, as a person does."""
        ids = {"id": more["id"]} if "id" in more else {}
        question = await self.shown("/confirm", action=action, queue=queue, **ids)
        assert "question" in question
        token = await self.form_token()
        given = {"form_token": token, "action": action, "queue": queue, "sure": "yes"} | more
        return await self.post("/act", **given)

    async def act_on_tasks(self, action: str, **more: Any) -> httpx.Response:
        """The same for tasks of the first database."""
        ids = {"id": more["id"]} if "id" in more else {}
        question = await self.shown("/task/confirm", action=action, shelf=0, **ids)
        assert "question" in question
        token = await self.form_token()
        given = {"form_token": token, "action": action, "shelf": 0, "sure": "yes"} | more
        return await self.post("/task/act", **given)


class Page(HTMLParser):
    """What a browser would make of a page: its elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.sources: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "action"):
                self.links.append(value or "")
            elif name == "src":
                self.sources.append(value or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

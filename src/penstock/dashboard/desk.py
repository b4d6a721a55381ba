"""What every page works with, and how it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from penstock.client.facts import blocker
from penstock.dashboard import words
from penstock.dashboard.attempts import Attempts
from penstock.dashboard.sessions import Session, Sessions
from penstock.dashboard.watch import Watch

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.dashboard.database import Database
    from penstock.dashboard.options import Options


def _templates() -> Environment:
    # Autoescape for every template: names, keys, headers, payloads and errors are strangers' words.
    made = Environment(
        loader=PackageLoader("penstock.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("count", "rate", "seconds", "span", "ago", "until", "moment", "size", "readable"):
        made.filters[name] = getattr(words, name)
    made.filters.update(
        compact=words.compact,
        pretty=words.pretty,
        lasted=words.lasted,
        blocker=blocker,
        query=urlencode,
    )
    return made


@dataclass(slots=True)
class Desk:
    """The dashboard's parts, made once."""

    options: Options
    database: Database
    sessions: Sessions
    watch: Watch
    attempts: Attempts
    templates: Environment

    @classmethod
    def made(cls, options: Options, database: Database, every: float) -> Desk:
        watch = Watch(database, every)
        return cls(options, database, Sessions(options), watch, Attempts(), _templates())

    def html(self, template: str, /, **values: Any) -> Markup:
        """A template filled; what it was given is escaped, so the whole may stand in another."""
        return Markup(self.templates.get_template(template).render(values))  # noqa: S704


def desk(request: Request) -> Desk:
    found: Desk = request.app.state.desk
    return found


def session(request: Request) -> Session:
    """The session of a request; the gate refuses requests without one."""
    found: Session | None = request.state.session
    assert found is not None
    return found


def page(request: Request, template: str, /, *, code: int = 200, **values: Any) -> HTMLResponse:
    """A whole page, with what its frame needs."""
    me, at = session(request), desk(request)
    html = at.html(
        template,
        me=me,
        form_token=at.sessions.form_token(me),
        database=at.database.name,
        has_login=at.options.auth,
        path=request.url.path,
        **values,
    )
    return HTMLResponse(html, code)


def asked(request: Request, name: str, default: str = "") -> str:
    return request.query_params.get(name, default)

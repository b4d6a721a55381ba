"""What every page works with, and how it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from penstock.client.facts import blocker
from penstock.dashboard import text_filters
from penstock.dashboard.access_control import LoginAttempts, WebSession, WebSessions
from penstock.dashboard.poller import Poller

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.dashboard.dashboard_database import DashboardDatabase
    from penstock.dashboard.dashboard_options import Options


def _templates() -> Environment:
    # Autoescape for every template: names, keys, headers, payloads and errors are foreign text.
    made = Environment(
        loader=PackageLoader("penstock.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("count", "rate", "seconds", "span", "ago", "until", "moment", "size", "readable"):
        made.filters[name] = getattr(text_filters, name)
    made.filters.update(
        compact=text_filters.compact,
        pretty=text_filters.pretty,
        lasted=text_filters.lasted,
        blocker=blocker,
        query=urlencode,
    )
    return made


@dataclass(slots=True)
class Dashboard:
    """The dashboard's parts, made once."""

    options: Options
    database: DashboardDatabase
    sessions: WebSessions
    poller: Poller
    attempts: LoginAttempts
    templates: Environment

    @classmethod
    def made(cls, options: Options, database: DashboardDatabase, every: float) -> Dashboard:
        poller = Poller(database, every)
        return cls(options, database, WebSessions(options), poller, LoginAttempts(), _templates())

    def html(self, template: str, /, **values: Any) -> Markup:
        """A template filled; what it was given is escaped, so the whole may stand in another."""
        return Markup(self.templates.get_template(template).render(values))  # noqa: S704


def dashboard_of(request: Request) -> Dashboard:
    found: Dashboard = request.app.state.dashboard
    return found


def session(request: Request) -> WebSession:
    """The session of a request; requests without one are refused before."""
    found: WebSession | None = request.state.session
    assert found is not None
    return found


def render(request: Request, template: str, /, *, code: int = 200, **values: Any) -> HTMLResponse:
    """A whole page, with what its frame needs."""
    me, dashboard = session(request), dashboard_of(request)
    html = dashboard.html(
        template,
        me=me,
        form_token=dashboard.sessions.form_token(me),
        database=dashboard.database.name,
        has_login=dashboard.options.auth,
        path=request.url.path,
        **values,
    )
    return HTMLResponse(html, code)


def parameter(request: Request, name: str, default: str = "") -> str:
    return request.query_params.get(name, default)

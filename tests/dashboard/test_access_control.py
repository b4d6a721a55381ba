"""Nobody sees or changes anything without the right to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from starlette.routing import Route

from penstock.dashboard.access_control import COOKIE, Role, WebSession, WebSessions
from penstock.dashboard.dashboard_options import Options
from penstock.errors import InvalidSetting
from tests.dashboard.visitor import OPERATOR, VIEWER, Visitor

if TYPE_CHECKING:
    from tests.fixtures.databases import Database
    from tests.sql.caller import Caller

FOREIGN = [None, "null", "https://evil.example", "http://localhost:1", "http://localhost"]


def paths(visitor: Visitor) -> list[str]:
    return [route.path for route in visitor.app.routes if isinstance(route, Route)]


def everything(mq: Caller) -> list[Any]:
    """All that an action could change."""
    return [
        mq.rows("queue_overview")[0][3:8],
        mq.value("select count(*) from penstock_data.dead_letters"),
        mq.value("select count(*) from penstock_data.audit"),
    ]


def secret_shop(mq: Caller) -> None:
    mq("create_queue", "secret-queue", "secret-topic")
    message = mq.publish("secret-topic", {"secret": "payload"})
    mq.consume("secret-queue")
    mq("bury_message", "secret-queue", message, "me")
    mq.publish("secret-topic")


async def test_without_login_nothing_is_shown_and_nothing_done(
    visitor: Visitor, mq: Caller
) -> None:
    secret_shop(mq)
    before = everything(mq)
    open_paths = {"/login", "/healthz"}
    for path in paths(visitor):
        answer = await visitor.get(path, name="secret-queue", queue="secret-queue", id="1")
        assert answer.status_code in ({200} if path in open_paths else {303, 401}), path
        assert "secret" not in answer.text, path
        if path not in open_paths:
            refused = await visitor.post(path, action="purge", queue="secret-queue", sure="yes")
            assert refused.status_code in (401, 403), path
    assert everything(mq) == before
    assert (await visitor.client.request("DELETE", "/act")).status_code == 405


async def test_a_token_opens_and_its_cookie_is_kept_from_scripts(visitor: Visitor) -> None:
    answer = await visitor.post("/login", token=f" {OPERATOR} ", next="/workers")
    assert (answer.status_code, answer.headers["location"]) == (303, "/workers")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "Log out" in await visitor.shown("/")
    left = await visitor.post("/logout", form_token=await visitor.form_token())
    assert left.status_code == 303
    assert (await visitor.get("/")).status_code == 303


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1", "\n/x"]
)
async def test_the_login_leads_nowhere_else(visitor: Visitor, wanted: str) -> None:
    answer = await visitor.post("/login", token=OPERATOR, next=wanted)
    assert answer.headers["location"] == "/"


async def test_guessing_is_slowed_down(visitor: Visitor) -> None:
    for _ in range(5):
        assert (await visitor.post("/login", token="guess")).status_code == 401
    assert (await visitor.post("/login", token="guess")).status_code == 429
    refused = await visitor.post("/login", token=OPERATOR)
    assert refused.status_code == 429
    assert COOKIE not in refused.cookies


async def test_a_login_from_another_site_is_refused(visitor: Visitor) -> None:
    answer = await visitor.post("/login", origin="https://evil.example", token=OPERATOR)
    assert answer.status_code == 403
    assert COOKIE not in answer.cookies


def test_a_session_that_was_tampered_with_or_has_ended_is_none() -> None:
    sessions = WebSessions(Options(operator_token=OPERATOR, viewer_token=VIEWER))
    mine = sessions.log_in(VIEWER)
    assert mine is not None
    assert mine.role is Role.VIEWER
    cookie = sessions.sealed(mine)
    assert sessions.opened(cookie) == mine
    assert sessions.opened(cookie.replace("viewer", "operator")) is None
    assert sessions.opened(cookie[:-1]) is None
    for nonsense in ("", "a.b", "a.b.c.d", "operator.9999999999.x.", "....", "é.1.x.y"):
        assert sessions.opened(nonsense) is None
    ended = WebSession(Role.OPERATOR, int(time.time()) - 1, "x")
    assert sessions.opened(sessions.sealed(ended)) is None
    others = WebSessions(Options(operator_token="another-operators-token", viewer_token=VIEWER))
    assert others.opened(cookie) is None
    assert not sessions.is_form_of(mine, sessions.form_token(ended))


@pytest.mark.parametrize("origin", FOREIGN)
async def test_a_foreign_origin_changes_nothing(
    operator: Visitor, mq: Caller, origin: str | None
) -> None:
    secret_shop(mq)
    before = everything(mq)
    token = await operator.form_token()
    for action in ("pause", "resume", "requeue", "delete", "purge"):
        answer = await operator.post(
            "/act",
            origin=origin,
            form_token=token,
            action=action,
            queue="secret-queue",
            sure="yes",
        )
        assert answer.status_code == 403, action
    assert (await operator.post("/logout", origin=origin, form_token=token)).status_code == 403
    assert everything(mq) == before


async def test_a_form_without_this_sessions_token_changes_nothing(
    operator: Visitor, mq: Caller
) -> None:
    secret_shop(mq)
    before = everything(mq)
    stranger = await Visitor(operator.app).log_in()
    for token in ("", "0" * 64, "é", await stranger.form_token()):
        answer = await operator.post(
            "/act", form_token=token, action="purge", queue="secret-queue", sure="yes"
        )
        assert answer.status_code == 403, token
    assert everything(mq) == before
    await stranger.client.aclose()


async def test_a_viewer_sees_but_can_not_act(visitor: Visitor, mq: Caller) -> None:
    secret_shop(mq)
    before = everything(mq)
    viewer = await visitor.log_in(VIEWER)
    page = await viewer.shown("/queue", name="secret-queue", state="dead")
    assert "secret-topic" in page
    assert "/confirm" not in page.replace('action="/confirm"', "")
    answer = await viewer.get("/confirm", action="purge", queue="secret-queue")
    assert answer.status_code == 403
    answer = await viewer.post(
        "/act",
        form_token=await viewer.form_token(),
        action="purge",
        queue="secret-queue",
        sure="yes",
    )
    assert answer.status_code == 403
    assert everything(mq) == before


async def test_a_rebound_name_is_refused(operator: Visitor) -> None:
    for host, status in [
        ("evil.example", 403),
        ("evil.example:8710", 403),
        ("[", 403),
        ("", 403),
        ("127.0.0.1:8710", 200),
        ("[::1]:8710", 200),
        ("localhost", 200),
    ]:
        answer = await operator.client.get("/login", headers={"Host": host})
        assert answer.status_code in (status, 303 if status == 200 else status), host


async def test_every_answer_forbids_foreign_scripts(operator: Visitor) -> None:
    for path in [*paths(operator), "/static/penstock.js", "/nowhere"]:
        if path == "/events":
            continue
        policy = (await operator.get(path)).headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy, path


async def test_too_large_a_form_is_refused(operator: Visitor) -> None:
    assert (await operator.post("/act", queue="x" * 70_000)).status_code == 413


async def test_without_auth_everybody_is_an_operator_but_foreign_sites_are_not(
    database: Database, mq: Caller
) -> None:
    secret_shop(mq)
    visitor = Visitor.of(database.dsn, auth=False)
    assert "secret-queue" in await visitor.shown("/")
    before = everything(mq)
    evil = await visitor.post("/act", origin="https://evil.example", action="purge")
    assert evil.status_code == 403
    assert everything(mq) == before
    assert (await visitor.act("pause", "secret-queue")).status_code == 303
    await visitor.close()


async def test_a_proxys_address_is_the_only_origin_behind_it(database: Database) -> None:
    visitor = Visitor.of(database.dsn, public_url="https://queues.example.com")
    host = {"Host": "queues.example.com"}
    own = await visitor.client.post(
        "/login", data={"token": OPERATOR}, headers={"Origin": "https://queues.example.com", **host}
    )
    assert own.status_code == 303
    assert "secure" in own.headers["set-cookie"].lower()
    foreign = await visitor.client.post(
        "/login", data={"token": OPERATOR}, headers={"Origin": "http://queues.example.com", **host}
    )
    assert foreign.status_code == 403
    assert (await visitor.client.get("/login", headers={"Host": "localhost"})).status_code == 403
    await visitor.close()


@pytest.mark.parametrize(
    "options",
    [
        {"host": "0.0.0.0", "auth": False},
        {"auth": False, "public_url": "https://queues.example.com"},
        {"operator_token": "short"},
        {"operator_token": VIEWER, "viewer_token": VIEWER},
        {"public_url": "queues.example.com"},
        {"public_url": "https://queues.example.com/path"},
    ],
)
def test_dangerous_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Options(**options)


def test_tokens_are_not_in_what_is_printed() -> None:
    options = Options(task_dsns=("mysql://root:secret@db/x",))
    assert options.operator_token not in repr(options)
    assert "secret" not in repr(options)

"""Who may do what through SQS, and that nobody reaches what is inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

SEND = {"SendMessage", "SendMessageBatch"}
CONSUME = {
    "ReceiveMessage",
    "DeleteMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
}
LOOK = {
    "ListQueues",
    "GetQueueAttributes",
    "ListQueueTags",
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
}
MANAGE = {
    "CreateQueue",
    "DeleteQueue",
    "SetQueueAttributes",
    "PurgeQueue",
    "TagQueue",
    "UntagQueue",
    "AddPermission",
    "RemovePermission",
    "StartMessageMoveTask",
    "CancelMessageMoveTask",
}
FIND = {"GetQueueUrl"}
EVERYTHING = SEND | CONSUME | LOOK | MANAGE | FIND


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("penstock_publisher", SEND | FIND),
        ("penstock_consumer", CONSUME | FIND),
        ("penstock_monitor", LOOK | FIND),
        ("penstock_admin", EVERYTHING),
    ],
)
def test_each_role_may_do_its_own(sqs: Sqs, connect: Connect, role: str, allowed: set[str]) -> None:
    caller = Sqs(connect(role=role))
    refused = set()
    for action in EVERYTHING:
        for perform in (caller, lambda each: caller.many(each, {})):
            try:
                perform(action)
            except psycopg.Error as error:
                if "may not perform" in str(error):
                    refused.add(action)

    assert len(EVERYTHING) == 23
    assert EVERYTHING - refused == allowed


def test_a_refusal_is_access_denied(sqs: Sqs, connect: Connect) -> None:
    sqs.create("q")

    refusal = Sqs(connect(role="penstock_consumer")).refusal(
        "SendMessage", QueueUrl="q", MessageBody="x"
    )

    assert (refusal.code, refusal.status) == ("AccessDenied", 403)


def test_nobody_reaches_what_is_inside(db: Session) -> None:
    inside = db.execute(
        "select count(*) from pg_class c cross join pg_roles r "
        "where c.relnamespace = 'pgqs_data'::regnamespace and c.relkind = 'r' "
        "and r.rolname like 'penstock\\_%%' and has_table_privilege(r.oid, c.oid, 'select')"
    ).fetchone()
    public = db.execute(
        "select p.oid::regprocedure from pg_proc p "
        "where p.pronamespace in ('pgqs'::regnamespace, 'pgqs_data'::regnamespace) "
        "and has_function_privilege('public', p.oid, 'execute')"
    ).fetchall()

    assert inside == (0,)
    assert public == []


def test_functions_with_rights_of_the_owner_pin_their_search_path(db: Session) -> None:
    loose = db.execute(
        "select p.oid::regprocedure from pg_proc p where p.prosecdef "
        "and p.pronamespace in ('pgqs'::regnamespace, 'pgqs_data'::regnamespace) "
        "and not coalesce(array_to_string(p.proconfig, ',') like "
        "'%%search_path=pg_catalog, pg_temp%%', false)"
    ).fetchall()

    assert loose == []


def test_a_reserved_queue_stays_reserved(sqs: Sqs, connect: Connect) -> None:
    sqs.create("q")
    sqs.send()
    sqs.db.execute("select penstock.grant_queue('q', 'penstock_admin')")

    with pytest.raises(psycopg.Error, match="may not use queue"):
        Sqs(connect(role="penstock_consumer")).receive()


def test_installing_again_keeps_the_queues(sqs: Sqs) -> None:
    sqs.create("q", VisibilityTimeout="60")
    url = sqs("GetQueueUrl", QueueName="q")
    sqs.send(body="kept")

    with sqs.db.transaction():
        schema.install(sqs.db)

    assert sqs("GetQueueUrl", QueueName="q") == url
    assert sqs.attributes()["VisibilityTimeout"] == "60"
    assert sqs.bodies() == ["kept"]


def test_uninstalling_leaves_nothing(db: Session) -> None:
    with db.transaction():
        schema.uninstall(db)

    left = db.execute("select nspname from pg_namespace where nspname ~ 'pgqs|penstock'").fetchall()
    assert left == []


def test_settings_are_checked(db: Session) -> None:
    for setting, value in (
        ("colour", "1"),
        ("purge_wait", "x"),
        ("purge_wait", "-1 s"),
        ("max_in_flight", "0"),
    ):
        with pytest.raises(psycopg.Error) as caught:
            db.execute("select pgqs.configure(%s, %s)", (setting, value))
        assert caught.value.sqlstate == "PS005"
    db.execute("select pgqs.configure('max_in_flight', null)")

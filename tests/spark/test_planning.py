"""Mistakes are errors of the plan, and say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import errors
from penstock.spark.source.columns import InvalidColumn
from penstock.spark.source.data_source import PenstockDataSource
from penstock.spark.source.option_names import InvalidOption
from tests.spark.jobs import structure

if TYPE_CHECKING:
    from tests.fixtures.databases import Database
    from tests.spark.jobs import Jobs


@pytest.fixture(autouse=True)
def topics(db: Any) -> None:
    db.execute("select penstock.create_topic('orders')")


def plan(
    database: Database, schema: str | None = None, *, stream: bool = False, **options: Any
) -> Any:
    source = PenstockDataSource({"url": database.dsn, **options})
    wanted = source.schema() if schema is None else structure(schema)
    return source.streamReader(wanted) if stream else source.reader(wanted)


def plan_write(database: Database, schema: str, *, overwrite: bool = False, **options: Any) -> Any:
    source = PenstockDataSource({"url": database.dsn, **options})
    return source.writer(structure(schema), overwrite)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "say which topics to read"),
        ({"subscribe": "orders", "subscribePattern": "o.*"}, "not both"),
        ({"subscribe": "orders", "topic": "orders"}, "given twice"),
        ({"subscribe": "orders", "startingOffset": "latest"}, "did you mean startingOffsets"),
        ({"subscribe": "orders", "nonsense": "1"}, "there is no option nonsense"),
        ({"subscribe": "orders", "group": "g"}, "not for batch reads"),
        ({"subscribe": "orders", "delivery": "exactly-once"}, "only for writes"),
        ({"subscribe": "orders", "entity": "mesages"}, "choose from messages, queue"),
        ({"subscribe": "orders", "startingOffsets": "latest"}, "from latest is empty"),
        ({"subscribe": "orders", "startingOffsets": "[1]"}, "a JSON object is needed"),
        ({"subscribe": "orders", "startingOffsets": "[" * 9999}, "a JSON object is needed"),
        ({"subscribe": "orders", "startingOffsets": '{"snap": 7}'}, "that is no offset"),
        ({"subscribe": "orders", "startingOffsets": '{"snap": "7"}'}, "is no snapshot"),
        ({"subscribe": "orders", "since": "9" * 30}, "too large"),
        ({"subscribe": "orders", "startingOffsets": '{"parcels": 1}'}, "not among the topics"),
        ({"subscribe": "orders", "startingOffsets": '{"orders": -1}'}, "first id of topic orders"),
        ({"subscribe": "orders", "endingOffsets": "earliest"}, "endingOffsets is latest"),
        ({"subscribe": "orders", "since": "soon"}, "ISO 8601 is needed"),
        ({"subscribe": "orders", "since": "2026-01-01", "startingTimestamp": "1"}, "mean the same"),
        ({"subscribe": "orders", "maxRecordsPerPartition": "0"}, "a whole number from 1"),
        ({"subscribe": "orders", "includeHeaders": "yes"}, "true or false"),
    ],
)
def test_options_are_checked(database: Database, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        plan(database, **options).partitions()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "orders"}, "from latest needs a group"),
        ({"subscribe": "orders", "group": "g", "endingOffsets": "latest"}, "not for stream reads"),
        ({"entity": "dead_letters"}, "can't be read as a stream"),
        ({"subscribe": "orders", "group": "g", "maxTriggerDelay": "soon"}, "a duration such as"),
        ({"subscribe": "orders", "group": "g", "maxTriggerDelay": f"{'9' * 30}d"}, "too large"),
        (
            {"subscribe": "orders", "startingOffsets": "earliest", "since": "2026-01-01"},
            "startingOffsets or startingTimestamp",
        ),
    ],
)
def test_options_of_streams_are_checked(
    database: Database, options: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidOption, match=words):
        plan(database, "value string", stream=True, **options)


@pytest.mark.parametrize(
    ("schema", "options", "problem", "words"),
    [
        ("value string", {}, InvalidOption, "option topic, or a column topic"),
        ("n int", {"topic": "orders"}, InvalidColumn, "has no column n"),
        ("key string", {"topic": "orders"}, InvalidColumn, "needs a payload"),
        ("value string, payload string", {"topic": "orders"}, InvalidColumn, "both mean payload"),
        ("value int", {"topic": "orders"}, InvalidColumn, "column value is int"),
        ("value string, priority string", {"topic": "orders"}, InvalidColumn, "an int is needed"),
        ("value string, expires_at string", {"topic": "orders"}, InvalidColumn, "a timestamp"),
        ("value string, headers array<int>", {"topic": "orders"}, InvalidColumn, "Kafka's array"),
        ("value string, key array<int>", {"topic": "orders"}, InvalidColumn, "a string is needed"),
        ("value string", {"topic": "gone"}, errors.UnknownTopic, "topic 'gone' does not exist"),
        ("value string", {"topic": "a,b"}, InvalidOption, "a write has one topic"),
        ("value string", {"topic": "orders", "delivery": "once"}, InvalidOption, "at-least-once"),
        ("value string", {"topic": "orders", "txnAppId": "a"}, InvalidOption, "go together"),
        (
            "value string",
            {"topic": "orders", "txnAppId": "a", "txnVersion": "1", "delivery": "at-least-once"},
            InvalidOption,
            "promises exactly-once",
        ),
    ],
)
def test_writes_are_checked(
    database: Database, schema: str, options: dict[str, str], problem: type[Exception], words: str
) -> None:
    with pytest.raises(problem, match=words):
        plan_write(database, schema, **options)


def test_topic_can_not_be_overwritten(database: Database) -> None:
    with pytest.raises(InvalidOption, match="can't be overwritten"):
        plan_write(database, "value string", overwrite=True, topic="orders")


def test_unknown_topic_and_column(database: Database) -> None:
    with pytest.raises(errors.UnknownTopic, match="topic 'gone' does not exist"):
        plan(database, subscribe="orders,gone")
    with pytest.raises(InvalidColumn, match="messages have no column nonsense"):
        plan(database, subscribe="orders", columns="nonsense")
    with pytest.raises(InvalidColumn, match="can't be read as int"):
        plan(database, "value int", subscribe="orders")


def test_missing_rights(database: Database, db: Any) -> None:
    db.execute("create role analyst login")
    db.execute("grant penstock_consumer to analyst")
    try:
        with pytest.raises(
            errors.PermissionDenied, match="needs penstock_admin, or penstock_consumer"
        ):
            plan(database, subscribe="orders", user="analyst")
        with pytest.raises(errors.PermissionDenied):
            plan_write(database, "value string", user="analyst", topic="orders")
        db.execute("select penstock.create_reader('for analysts', 'orders')")
        assert plan(database, subscribe="orders", user="analyst").partitions()
    finally:
        db.execute("drop role analyst")


def test_database_without_the_engine_or_with_another_version(
    database: Database, empty_database: Database, db: Any
) -> None:
    with pytest.raises(errors.NotInstalled, match="penstock init"):
        plan(empty_database, subscribe="orders")
    db.execute(
        "create or replace function penstock.schema_version() returns int "
        "language sql as 'select 99'"
    )
    with pytest.raises(errors.WrongSchemaVersion, match="has version 99"):
        plan(database, subscribe="orders")


def test_no_database_and_an_unreadable_url(database: Database, monkeypatch: Any) -> None:
    monkeypatch.delenv("PENSTOCK_DSN", raising=False)
    with pytest.raises(InvalidOption, match="give option url"):
        PenstockDataSource({"subscribe": "orders"}).reader(structure("value string"))
    with pytest.raises(InvalidOption, match="can't be read") as caught:
        plan_at("host= =s3cret password")
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv("PENSTOCK_DSN", database.dsn)
    source = PenstockDataSource({"subscribe": "orders"})
    assert source.reader(source.schema()).partitions()


def plan_at(url: str) -> Any:
    return PenstockDataSource({"url": url, "subscribe": "orders"}).reader(structure("value string"))


def test_jdbc_urls_and_kafka_options_are_taken(database: Database) -> None:
    where = psycopg.conninfo.conninfo_to_dict(database.tcp_dsn)
    url = f"jdbc:postgresql://{where['host']}:{where['port']}/{where['dbname']}"
    options = {"user": where["user"], "kafka.bootstrap.servers": "ignored:9092"}
    source = PenstockDataSource({"url": url, "subscribe": "orders", **options})
    assert source.reader(source.schema()).partitions()


def test_spark_shows_the_reason(jobs: Jobs) -> None:
    with pytest.raises(Exception, match="topic 'gone' does not exist"):
        jobs.read(subscribe="gone").count()
    with pytest.raises(Exception, match="did you mean subscribe"):
        jobs.read(subscibe="orders")

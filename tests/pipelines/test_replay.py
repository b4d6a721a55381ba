"""replay: the chosen messages again, once, and each knows which one it was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidSetting
from penstock.spark.pipelines import archive, publication, replay

if TYPE_CHECKING:
    from tests.pipelines.shop import Shop


def published(shop: Shop) -> None:
    shop.publish(
        "orders",
        [{"n": n} for n in range(12)],
        keys=[f"k{n % 3}" for n in range(12)],
        headers=[{"region": "eu" if n % 2 else "us", "it's": "odd"} for n in range(12)],
    )


@pytest.mark.always
def test_an_archive_is_replayed_by_key_header_and_condition(shop: Shop):
    published(shop)
    shop(archive, "orders", shop.folder / "lake")
    choice: dict[str, Any] = {
        "archive": shop.folder / "lake",
        "headers": {"region": "eu", "it's": "odd"},
        "where": "get_json_object(value, '$.n') > 2",
        "since": datetime.now(UTC) - timedelta(hours=1),
    }
    dry = shop(replay, dry_run=True, **choice)
    assert (dry.rows, dry.details["would_send"], dry.details["topics"]) == (0, 5, ["orders"])
    done = shop(replay, to_topic="again", **choice)
    assert done.rows == 5
    assert shop.numbers("again") == [3, 5, 7, 9, 11]
    first = shop.messages("again")[0]
    [(number,)] = shop.db.execute(
        "select id from penstock.log where topic = 'orders' and payload @> '{\"n\": 3}'"
    )
    assert first["headers"]["original_id"] == number
    assert (first["headers"]["original_topic"], first["headers"]["region"], first["key"]) == (
        "orders",
        "eu",
        "k0",
    )

    # The same replay once more sends nothing, unless asked to.
    assert shop(replay, to_topic="again", **choice).rows == 0
    assert shop(replay, to_topic="again", again=True, **choice).rows == 5


def test_the_log_goes_to_one_queue_alone(shop: Shop):
    published(shop)
    for queue in ("one", "other"):
        shop.db.execute("select penstock.create_queue(%s, 'orders')", (queue,))
    shop(replay, log="orders", to_queue="one", key="k1", state=shop.folder / "q")
    shop(replay, log="orders", to_queue="one", key="k1", state=shop.folder / "q")
    claim = """select payload ->> 'n', headers -> 'original_id' is not null
        from penstock.consume_messages_batch(%s, 't', 9, 99)"""
    assert sorted(shop.db.execute(claim, ("one",))) == [
        ("1", True),
        ("10", True),
        ("4", True),
        ("7", True),
    ]
    assert shop.db.execute(claim, ("other",)).fetchall() == []


def test_an_interrupted_replay_goes_on_with_the_same_messages(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    published(shop)
    send = publication.publish

    def then_crash(run: Any, frame: Any, app: str, version: int) -> None:
        send(run, frame, app, version)
        if version == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publication, "publish", then_crash)
        with pytest.raises(KeyboardInterrupt):
            shop(replay, log="orders", to_topic="again", rate=1.0)
    shop.publish("orders", [{"n": 99}])
    # The choice does not need the topic any more.
    shop.db.execute("select penstock.delete_topic('orders')")
    # Two rows a chunk at one row a second: the rest is quick without the brake.
    shop(replay, log="orders", to_topic="again")
    assert shop.numbers("again") == list(range(12))


def test_both_ends_must_be_named(shop: Shop):
    for wrong in (
        {},
        {"log": "a", "archive": "b"},
        {"log": "a"},
        {"log": "a", "to_topic": "b", "to_queue": "c"},
    ):
        with pytest.raises(InvalidSetting, match="not both"):
            shop(replay, **wrong)
    with pytest.raises(InvalidSetting, match="no archive of this format"):
        shop(replay, archive=shop.folder / "nothing", to_topic="x")

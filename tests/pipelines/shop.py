"""What the tests of pipelines share: publishing, consuming, counting, and running a pipeline."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.pipelines import Summary


@dataclass
class Shop:
    spark: SparkSession
    url: str
    db: psycopg.Connection[Any]
    folder: Path
    run: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.run = {"url": self.url, "spark": self.spark}

    def __call__(self, pipeline: Callable[..., Summary], *args: Any, **options: Any) -> Summary:
        """Run a pipeline once, with this test's database; its state is the test's own."""
        state = {"state": self.folder / f"state-{pipeline.__name__}"}
        return pipeline(
            *args, **({} if pipeline.__name__ in OWN_STATE else state) | self.run | options
        )

    def publish(self, topic: str, payloads: list[Any], **arrays: list[Any]) -> None:
        """Publish JSON payloads; arrays such as keys=[…] go along."""
        self.db.execute("select penstock.create_topic(%s)", (topic,))
        named = "".join(f", {name} => %s" for name in arrays)
        kinds = {"headers": lambda each: json.dumps(each) if each is not None else None}
        values = [
            [kinds[name](each) for each in array] if name in kinds else array
            for name, array in arrays.items()
        ]
        casts = {"headers": "::jsonb[]", "priorities": "::int[]"}
        named = "".join(f", {name} => %s{casts.get(name, '::text[]')}" for name in arrays)
        self.db.execute(
            f"select count(*) from penstock.publish_messages(%s, %s::jsonb[]{named})",
            (topic, [json.dumps(each) for each in payloads], *values),
        )

    def numbers(self, topic: str, name: str = "n") -> list[int]:
        """What a topic's payloads hold under a name, sorted: lost and doubled ones show."""
        rows = self.db.execute(
            "select (payload ->> %s)::int from penstock.log where topic = %s order by 1",
            (name, topic),
        )
        return [number for (number,) in rows]

    def messages(self, topic: str) -> list[dict[str, Any]]:
        rows = self.db.execute(
            "select key, payload, headers, priority, tenant_id from penstock.log "
            "where topic = %s order by id",
            (topic,),
        )
        names = ("key", "payload", "headers", "priority", "tenant_id")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def archived(self, frame: DataFrame) -> list[int]:
        """The numbers in an archive, sorted."""
        return sorted(json.loads(row["value"])["n"] for row in frame.select("value").collect())


# These keep their state beside what they write.
OWN_STATE = {"archive", "analyse"}

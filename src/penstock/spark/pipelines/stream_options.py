"""What is read of topics, and from where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidSetting, UnknownTopic
from penstock.spark.pipelines import engine_calls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.spark.pipelines.run import Run

_ASCII = 127


def names(topics: str | Sequence[str]) -> list[str]:
    """One topic or several, each once."""
    found = [topics] if isinstance(topics, str) else list(dict.fromkeys(topics))
    if not found:
        raise InvalidSetting("name at least one topic")
    return found


def check_topics(run: Run, topics: Sequence[str]) -> None:
    """A topic that is not there is said before Spark plans anything."""
    missing = [topic for topic in topics if topic not in engine_calls.topic_names(run.url)]
    if missing:
        raise UnknownTopic(f"there is no topic {', '.join(missing)}")


def options(
    run: Run,
    topics: Sequence[str],
    *,
    group: str,
    start: str = "earliest",
    max_rows: int | None = None,
) -> dict[str, str]:
    """What a stream of topics is asked for: a named group keeps the log until it is committed."""
    check_topics(run, topics)
    return subscription(topics) | reading(run, group, start, max_rows)


def reading(run: Run, group: str, start: str, max_rows: int | None) -> dict[str, str]:
    """The options of every stream: of which database and group, from where, in which batches."""
    found = {"url": run.url, "group": group, "onLostOffset": run.on_lost_offset}
    found |= dict([starting(start)])
    return found | ({} if max_rows is None else {"maxOffsetsPerTrigger": str(max_rows)})


def subscription(topics: Sequence[str]) -> dict[str, str]:
    """The option that names the topics; a name may hold a comma, which only a pattern can say."""
    if any("," in topic or topic != topic.strip() for topic in topics):
        return {"subscribePattern": "|".join(map(_literally, topics))}
    return {"subscribe": ",".join(topics)}


def without_members(options: Mapping[str, str]) -> dict[str, str]:
    """Options without those that name topics or queues."""
    left_out = ("subscribe", "subscribePattern", "queue")
    return {name: value for name, value in options.items() if name not in left_out}


def _literally(name: str) -> str:
    return "".join(char if char.isalnum() or ord(char) > _ASCII else f"\\{char}" for char in name)


def starting(start: str) -> tuple[str, str]:
    """Where a new group begins: earliest, latest, a moment, or offsets as JSON."""
    if start in {"earliest", "latest"} or start.lstrip().startswith("{"):
        return "startingOffsets", start
    return "startingTimestamp", start


def default_group(pipeline: str, run: Run) -> str:
    """A group of its own for every state: two archives of one topic don't share a position."""
    return f"{pipeline}-{run.state.identity()[:12]}"

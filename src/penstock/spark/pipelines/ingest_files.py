"""The files that ingest reads: which ones are there, and their rows, whatever their format.

A source is a file, a folder with all below it, or a pattern.  A row that can't be read says why.
"""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

import fnmatch
import glob
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs
from pyspark.sql import functions as f

from penstock.errors import InvalidSetting
from penstock.spark.lake.data_files import as_uri

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

_ENDINGS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
FORMATS = ("json", "csv", "parquet")
_CORRUPT = "_corrupt"


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was when it was looked at."""

    path: str
    size: int
    modified: str
    format: str


def find(
    sources: Sequence[str], format: str | None, *, settled: timedelta = timedelta(0)
) -> list[Found]:
    """Every file of the sources once, in the order of names; hidden ones are left out.

    `settled`: a file that changed this recently may still be written to, and is left for later.
    """
    found: dict[str, Found] = {}
    for source in sources:
        for info in _infos(source):
            kind = format or _format_of(info.path)
            young = info.mtime is not None and datetime.now(UTC) - info.mtime < settled
            if kind and not young and not _hidden(info.path, source):
                path = _full(source, info.path)
                found[path] = Found(
                    path, info.size, info.mtime.isoformat() if info.mtime else "", kind
                )
    return [found[path] for path in sorted(found)]


def check(sources: Sequence[str]) -> None:
    """A source that is not there is a typing error, unless it is a pattern."""
    for source in sources:
        if not _is_pattern(source) and not list(_infos(source)) and not _is_folder(source):
            raise InvalidSetting(f"there is no file or folder {source}")


def _infos(source: str) -> Iterator[arrow_fs.FileInfo]:
    if "://" not in source and _is_pattern(source):
        for path in glob.iglob(source, recursive=True):  # noqa: PTH207 - may begin anywhere
            yield from _infos(str(Path(path).absolute()))
        return
    where, path = arrow_fs.FileSystem.from_uri(
        as_uri(source if "://" in source else _absolute(source))
    )
    if _is_pattern(path):
        base = re.split(r"[*?\[]", path)[0].rpartition("/")[0]
        selector = arrow_fs.FileSelector(base, recursive=True, allow_not_found=True)
        yield from (
            i for i in where.get_file_info(selector) if i.is_file and fnmatch.fnmatch(i.path, path)
        )
        return
    info = where.get_file_info(path)
    if info.type == arrow_fs.FileType.Directory:
        yield from (
            i for i in where.get_file_info(arrow_fs.FileSelector(path, recursive=True)) if i.is_file
        )
    elif info.is_file:
        yield info


def _is_pattern(source: str) -> bool:
    return any(mark in source for mark in "*?[")


def _is_folder(source: str) -> bool:
    return "://" not in source and Path(source).is_dir()


def _absolute(source: str) -> str:
    return str(Path(source).expanduser().absolute())


def _full(source: str, path: str) -> str:
    scheme, mark, _rest = source.partition("://")
    return f"{scheme}://{path}" if mark else path


def _hidden(path: str, source: str) -> bool:
    """Programs name what is not finished with a dot or an underscore in front."""
    base = source if "://" in source or _is_pattern(source) else _absolute(source)
    below = path.removeprefix(base.rstrip("/") + "/") if path.startswith(base) else Path(path).name
    return any(part.startswith((".", "_")) for part in below.split("/"))


def _format_of(path: str) -> str | None:
    endings = [
        ending.lower()
        for ending in Path(path).suffixes
        if ending.lower() not in (".gz", ".bz2", ".zst")
    ]
    return _ENDINGS.get(endings[-1]) if endings else None


def read(
    spark: SparkSession,
    format: str,
    paths: Sequence[str],
    schema: str | None,
    options: dict[str, str],
) -> DataFrame:
    """Rows with their columns, `_file`, and `_reason` for those that can't be read.

    JSON lines also have `_line`: a payload then is what the file says, byte for byte.
    """
    match format:
        case "json":
            return _json(spark, paths, schema)
        case "csv":
            return _csv(spark, paths, schema, options)
        case _:
            frame = spark.read.options(**options).option("mergeSchema", "true").parquet(*paths)
            return _about(frame)


def _json(spark: SparkSession, paths: Sequence[str], schema: str | None) -> DataFrame:
    lines = _about(spark.read.text(list(paths)).withColumnRenamed("value", "_line"))
    lines = lines.where(f.length(f.trim("_line")) > 0)
    if schema is None:
        return lines
    parsed = f.from_json("_line", schema, {"mode": "PERMISSIVE"})
    return lines.withColumn("_row", parsed).select("_row.*", "_line", "_file", "_reason")


def _csv(
    spark: SparkSession, paths: Sequence[str], schema: str | None, options: dict[str, str]
) -> DataFrame:
    reader = spark.read.options(**{"header": "true", "mode": "PERMISSIVE", **options})
    columns = f"{schema}, {_CORRUPT} string" if schema else None
    if columns is not None:
        reader = reader.schema(columns).option("columnNameOfCorruptRecord", _CORRUPT)
    frame = _about(reader.csv(list(paths)))
    if columns is None:
        return frame
    wrong = f.concat(f.lit("does not fit the columns: "), f.col(_CORRUPT))
    return frame.withColumn("_reason", f.when(f.col(_CORRUPT).isNotNull(), wrong)).drop(_CORRUPT)


def _about(frame: DataFrame) -> DataFrame:
    return frame.select(
        "*",
        f.col("_metadata.file_path").alias("_file"),
        f.lit(None).cast("string").alias("_reason"),
    )


def infer(
    spark: SparkSession,
    format: str,
    paths: Sequence[str],
    options: dict[str, str],
    *,
    types: bool,
) -> str | None:
    """The columns of these files, as one line of DDL; None where Parquet tells them itself."""
    match format:
        case "json":
            found = spark.read.json(list(paths)).schema
        case "csv":
            given = {"header": "true", "inferSchema": str(types).lower(), **options}
            found = spark.read.options(**given).csv(list(paths)).schema
        case _:
            return None
    return ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in found)


def shape(found: Found) -> str:
    """What files must share to be read together: the format, and in CSV the header."""
    if found.format != "csv":
        return found.format
    where, path = arrow_fs.FileSystem.from_uri(as_uri(found.path))
    with where.open_input_stream(path, compression="detect") as stream:
        first: Any = stream.read(65536).split(b"\n", 1)[0]
    return f"csv:{first.decode(errors='replace').strip()}"


def damage(found: Found) -> str | None:
    """Why a file as a whole can't be read; None: nothing is known against it."""
    if found.format != "parquet":
        return None
    where, path = arrow_fs.FileSystem.from_uri(as_uri(found.path))
    try:
        with where.open_input_file(path) as stream:
            pq.read_metadata(stream)
    except (OSError, ValueError) as problem:
        return f"not a Parquet file: {problem}"
    return None

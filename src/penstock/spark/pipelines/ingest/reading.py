"""From a chunk of files to rows, whatever their format; a row that can't be read says why."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs
from pyspark.sql import functions as f

from penstock.spark.pipelines.lake.files import as_uri

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.pipelines.ingest.listing import Found

_CORRUPT = "_corrupt"


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

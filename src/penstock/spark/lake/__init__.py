"""Tables of files on a disk or in an object store: Delta, Iceberg or plain Parquet."""

# ruff: noqa: A002, PLC0415 - format is Spark's word, and only the one that is used is imported

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from penstock.errors import InvalidSetting
from penstock.spark.lake.lake_table import Compaction, Lake, Wanted

__all__ = ["Compaction", "Format", "Lake", "Wanted", "open_lake"]


class Format(StrEnum):
    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


def open_lake(
    location: str,
    format: Format | str = Format.DELTA,
    *,
    by: tuple[str, ...] = ("topic", "day"),
    catalog: str | None = None,
    table: str | None = None,
) -> Lake:
    """The table at a location, whether it exists yet or not."""
    root = location if "://" in location else str(Path(location).expanduser().absolute())
    try:
        match Format(format):
            case Format.DELTA:
                from penstock.spark.lake.delta import DeltaLake

                return DeltaLake(root, by)
            case Format.ICEBERG:
                from penstock.spark.lake.iceberg import IcebergLake

                return IcebergLake(root, by, catalog=catalog, table=table or "penstock.messages")
            case Format.PARQUET:
                from penstock.spark.lake.parquet import ParquetLake

                return ParquetLake(root, by)
    except ModuleNotFoundError as problem:
        raise InvalidSetting(
            f"{format} needs {problem.name}: pip install 'penstock-mq[spark]'"
        ) from None
    except ValueError as problem:
        raise InvalidSetting(str(problem)) from None

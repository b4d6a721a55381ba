"""The Spark door: the data source `penstock`, for batch and streams, reading and writing."""

from penstock.spark.spark_session import attach, session

__all__ = ["attach", "session"]

"""Where Spark looks for the data source `penstock`, on driver and executors."""

from penstock.spark.source.data_source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]

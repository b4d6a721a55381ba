"""Where Spark looks for the data source `penstock`: a module of this name, on driver and executors."""

from penstock.spark.source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]

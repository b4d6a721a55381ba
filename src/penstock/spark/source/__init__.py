"""The data source `penstock`: batch and stream reads, and writes.

`data_source` is what Spark finds; it imports readers and writers when they are needed.
"""

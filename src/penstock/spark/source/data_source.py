"""The data source `penstock`: what Spark asks for when a job names the format.

Spark starts a process for each question it has, so readers, writers and all that reaches a database
are imported by the methods that need them: a process imports only what it uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from penstock.spark.source import columns
from penstock.spark.source.option_names import InvalidOption
from penstock.spark.source.source_options import (
    ReadOptions,
    read_options,
    shape_options,
    write_options,
)

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from penstock.spark.source.stream_reader import PenstockStreamReader

_TASKS = ("tasks", "task_attempts")
_LOGS = ("messages", "receipts")


class PenstockDataSource(DataSource):
    """`spark.read`, `spark.readStream`, `df.write` and `df.writeStream` with format penstock.

    Every question that can be asked before a job runs is asked here, so that a mistake is an error
    of the plan and not of a task.
    """

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        # Spark does not tell here whether it is for a stream; the readers check the rest.
        entity, names, kafka_headers = shape_options(self.options)
        return columns.schema(entity, names, kafka_headers=kafka_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, stream=False)
        columns.check(options.entity, schema)
        info = self._conninfo(tasks=options.entity in _TASKS)
        if options.entity in _TASKS:
            from penstock.spark.source.task_table_reader import TaskTableReader  # noqa: PLC0415

            return TaskTableReader(info, options, schema)
        from penstock.spark.source.batch_reader import PenstockReader, TableReader  # noqa: PLC0415

        self._check_readable(info, options)
        kind = PenstockReader if options.entity in _LOGS else TableReader
        return kind(info, options, schema)

    def streamReader(self, schema: StructType) -> PenstockStreamReader:  # noqa: N802
        options = read_options(self.options, stream=True)
        columns.check(options.entity, schema)
        info = self._conninfo()
        self._check_readable(info, options)
        from penstock.spark.source.stream_reader import PenstockStreamReader  # noqa: PLC0415

        return PenstockStreamReader(info, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        if overwrite:
            raise InvalidOption("a topic is a log and can't be overwritten: use mode('append')")
        from penstock.spark.source.sink import PenstockWriter  # noqa: PLC0415

        return PenstockWriter(self._conninfo(), write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001,N802
        if overwrite:
            raise InvalidOption(
                "a topic is a log and can't be overwritten: use outputMode('append'), "
                "or foreachBatch with txnAppId and txnVersion"
            )
        from penstock.spark.source.sink import PenstockStreamWriter  # noqa: PLC0415

        options = write_options(self.options)
        if options.app_id is not None:
            raise InvalidOption("a stream numbers its batches itself: leave out txnAppId")
        return PenstockStreamWriter(self._conninfo(), options, schema)

    def _conninfo(self, *, tasks: bool = False) -> str:
        from penstock.spark.source.driver_connection import conninfo, is_mysql  # noqa: PLC0415

        url = self.options.get("url")
        if tasks and url and is_mysql(url):
            return str(url)
        return conninfo(url, self.options.get("user"), self.options.get("password"))

    def _check_readable(self, info: str, options: ReadOptions) -> None:
        """Raise unless the engine is there and this role may read what is asked for."""
        from penstock.spark.source.driver_connection import DriverConnection  # noqa: PLC0415
        from penstock.spark.source.message_log import Log  # noqa: PLC0415

        database = DriverConnection(info, planning=True)
        try:
            log = Log(database, options)
            log.check_version()
            if options.entity in _LOGS:
                log.scope()
        finally:
            database.close()

    def __reduce__(self) -> Any:
        return (type(self), (self.options,))

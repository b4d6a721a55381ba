"""The source together with its code, for machines that have not got the package.

What Spark pickles would name modules that these machines can't import.  So readers and writers are
pickled together with the package's sources, behind a function that needs neither: it makes the
sources importable, in memory, and then unpickles.  A machine that has the package uses its own.
"""

from __future__ import annotations

import json
import sys
import zlib
from importlib import import_module
from inspect import getsource
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.datasource import DataSource

code: bytes | None = None
"""The packed sources, in a process whose readers and writers must carry them."""
_WITHOUT = ("penstock.spark.pipelines", "penstock.spark.lake")

# Run as `__main__`: cloudpickle pickles functions of `__main__` with their code.
_UNPACKER = """
def unpack(code, inner=None):
    import importlib.abc
    import importlib.util
    import json
    import pickle
    import sys
    import zlib

    class Carried(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
        def __init__(self, sources):
            self.sources = sources

        def find_spec(self, name, path=None, target=None):
            if name not in self.sources:
                return None
            spec = importlib.util.spec_from_loader(name, self, origin=f"carried/{name}.py")
            spec.has_location = True
            return spec

        def is_package(self, name):
            return self.sources[name][0]

        def get_source(self, name):
            return self.sources[name][1]

    if importlib.util.find_spec("penstock") is None:
        sys.meta_path.insert(0, Carried(json.loads(zlib.decompress(code))))
    from penstock.spark.source import portable_code

    portable_code.code = code
    if inner is not None:
        kind, state = pickle.loads(inner)
        made = kind.__new__(kind)
        made.__setstate__(state) if hasattr(made, "__setstate__") else made.__dict__.update(state)
        return made


def source(base, code):
    class PenstockDataSource(base):
        @classmethod
        def name(cls):
            return "penstock"

        def _itself(self):
            unpack(code)
            from penstock.spark.source.data_source import PenstockDataSource

            return PenstockDataSource(self.options)

        def schema(self):
            return self._itself().schema()

        def reader(self, schema):
            return self._itself().reader(schema)

        def streamReader(self, schema):
            return self._itself().streamReader(schema)

        def writer(self, schema, overwrite):
            return self._itself().writer(schema, overwrite)

        def streamWriter(self, schema, overwrite):
            return self._itself().streamWriter(schema, overwrite)

    return PenstockDataSource
"""


def _unpacker() -> dict[str, Callable[..., Any]]:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(_UNPACKER, scope)  # noqa: S102 - the text above
    return scope


class Portable:
    """A reader or writer that is pickled with its code if the process has `code`."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        if code is None:
            return super().__reduce_ex__(protocol)
        inner = cloudpickle.dumps((type(self), self.__getstate__()))  # type: ignore[no-untyped-call]
        return _unpacker()["unpack"], (code, inner)


def portable_source(base: type[DataSource]) -> type[DataSource]:
    """The data source, with everything that it needs of this package inside of it."""
    made: type[DataSource] = _unpacker()["source"](base, _packed())
    return made


def _packed() -> bytes:
    """The sources of the modules that reads and writes need."""
    # The source imports these when it connects.
    for name in ("penstock.postgres", "penstock.settings"):
        import_module(name)
    package = import_module("penstock.spark.source")
    for found in iter_modules(package.__path__, f"{package.__name__}."):
        import_module(found.name)
    sources = {
        name: (hasattr(module, "__path__"), getsource(module))
        for name, module in sorted(sys.modules.items())
        if name.split(".")[0] == "penstock" and not name.startswith(_WITHOUT)
    }
    return zlib.compress(json.dumps(sources).encode())

"""Everything Penstock raises, in one tree.

::

    PenstockError
    ├── InvalidSetting              an option or PENSTOCK_* variable that can't be used
    ├── MissingExtra                a package that an extra brings; an ImportError as well
    ├── PayloadInvalid              a payload that JSON can't hold, or that does not fit its type
    ├── DatabaseUnavailable         no connection within the time that was allowed for it
    │   ├── ClientClosed            the client is not open, or was opened in another event loop
    │   ├── ConnectionLost          a connection broke; what ran on it was rolled back or repeatable
    │   └── CallTimeout             no answer in time; what was asked was undone or is repeatable
    ├── OutcomeUnknown              the database may or may not have done it: see its message
    ├── TransactionAborted          a failed statement was caught, so nothing was committed
    ├── UnusableConnection          a connection= of a kind that can't run a call here
    ├── NoReply                     a request was not answered in time
    ├── ClaimLost                   a transactional handler's claim ended first; it was rolled back
    ├── ProcessDied                 the process of a handler ended before its message was done
    ├── WorkerGaveUp                a queue could not be read max_queue_retries times in a row
    ├── EngineError                 the database refused; .code is its SQLSTATE, .hint its advice
    │   ├── UnknownName
    │   │   ├── UnknownTopic        PS001
    │   │   ├── UnknownQueue        PS002
    │   │   ├── UnknownReader       PS003
    │   │   └── UnknownDeadLetter   PS014
    │   ├── InvalidArgument         PS005
    │   │   ├── InvalidName         PS004
    │   │   └── TooLarge            PS007
    │   ├── AlreadyExists           PS006  the same name with other settings
    │   ├── QueueExpired            PS008  an exclusive queue whose keep-alive ran out
    │   ├── PermissionDenied        PS009, 42501
    │   ├── RebaseNeeded            PS010  the database was restored into another cluster
    │   ├── StandbyServer           PS011, 25006
    │   ├── WrongSchemaVersion      PS012  this Penstock and the installed engine differ
    │   ├── NotInstalled            3F000, 42883, 42P01 on penstock.*
    │   ├── LogFull                 PS013  publishing is refused until space is made
    │   ├── OtherCluster            PS015  a stream's offset is of another cluster, or was lost
    │   ├── LogTruncated            PS016  a stream had still to read what was removed
    │   ├── StageIncomplete         PS017  staged rows are missing: run the write again
    │   ├── DiskFull                53100
    │   └── Conflict                40001, 40P01, 55P03  run the transaction again
    │       └── QueueBusy           PS018  another transaction holds the queue: try again
    └── EmbeddedServerError         the embedded PostgreSQL; .folder is its data folder
        ├── EmbeddedServerMissing   not installed, or not for this platform
        ├── EmbeddedServerStuck     it neither starts nor stops in time
        ├── FolderDamaged
        ├── FolderOfOtherVersion
        ├── FolderForbidden         owner or permissions
        ├── FolderFull              the disk is full
        ├── FolderBusy              a lock, a pid file or a socket is in the way
        └── SocketPathTooLong
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    # Not at run time: Spark starts a process for each question it has, and most of them need the
    # names of errors without ever reaching a database.
    import psycopg


class PenstockError(Exception):
    """The root of the tree: catch it to catch all of Penstock's errors."""


class InvalidSetting(PenstockError):
    """An option or environment variable has a value that can't be used."""


class MissingExtra(PenstockError, ImportError):
    """A package is not installed that an extra of Penstock brings."""


class PayloadInvalid(PenstockError):
    """A payload can't be written as JSON, or does not fit the type it should have."""


class DatabaseUnavailable(PenstockError):
    """The database can't be reached, or the connection to it was lost."""


class ClientClosed(DatabaseUnavailable):
    """The client was not opened, is closed, or belongs to another event loop."""


class ConnectionLost(DatabaseUnavailable):
    """The connection broke while it was in use."""


class CallTimeout(DatabaseUnavailable):
    """The server did not answer within the time that a call may take."""


class OutcomeUnknown(PenstockError):
    """The database was asked, and its answer was lost: it may or may not have done it."""


class TransactionAborted(PenstockError):
    """A statement of the transaction failed, so nothing of the transaction was committed."""


class UnusableConnection(PenstockError):
    """The connection that was given is of a kind that can't run a call here."""


class NoReply(PenstockError):
    """A request was published, and no reply came in time."""


class ClaimLost(PenstockError):
    """A claim ended before its handler did, so what the handler wrote was rolled back."""


class ProcessDied(PenstockError):
    """The process that handled a message ended: killed, out of memory, or `os._exit`."""


class WorkerGaveUp(PenstockError):
    """A queue could not be read as many times in a row as the handler allows."""


class EngineError(PenstockError):
    """The database refused a call."""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UnknownName(EngineError):
    """Nothing has this name."""


class UnknownTopic(UnknownName):
    """No topic has this name."""


class UnknownQueue(UnknownName):
    """No queue has this name."""


class UnknownReader(UnknownName):
    """No reader has this name."""


class UnknownDeadLetter(UnknownName):
    """No dead letter has this id."""


class InvalidArgument(EngineError):
    """An argument is null, out of range or malformed."""


class InvalidName(InvalidArgument):
    """A name is empty, too long or not printable."""


class TooLarge(InvalidArgument):
    """A payload or another value is larger than the engine takes."""


class AlreadyExists(EngineError):
    """The name is in use with other settings."""


class QueueExpired(EngineError):
    """An exclusive queue was not kept alive and is gone."""


class PermissionDenied(EngineError):
    """The role may not do this, or not on this topic or queue."""


class RebaseNeeded(EngineError):
    """The database was restored into another cluster; its log must be re-stamped first."""


class StandbyServer(EngineError):
    """The server is a read-only standby."""


class WrongSchemaVersion(EngineError):
    """The engine in the database is of another version than this package."""


class NotInstalled(EngineError):
    """The database has no Penstock engine."""


class LogFull(EngineError):
    """The log may not grow further, so publishing is refused."""


class OtherCluster(EngineError):
    """An offset is of another cluster, or stands on transactions that a fail-over lost."""


class LogTruncated(EngineError):
    """Messages that a stream had still to read were removed from the log."""


class StageIncomplete(EngineError):
    """Staged rows of a write are missing; nothing of it was published."""


class DiskFull(EngineError):
    """The database server's disk is full."""


class Conflict(EngineError):
    """Another transaction was faster; running this one again is safe."""


class QueueBusy(Conflict):
    """Another transaction kept the queue's claim lock for too long; trying again is safe."""


class EmbeddedServerError(PenstockError):
    """The embedded PostgreSQL can't be used as it stands."""

    def __init__(self, message: str, *, folder: Path | None = None) -> None:
        super().__init__(message)
        self.folder = folder


class EmbeddedServerMissing(EmbeddedServerError):
    """The extra `embedded` is not installed, or has no PostgreSQL for this platform."""


class EmbeddedServerStuck(EmbeddedServerError):
    """The server neither started nor stopped in time."""


class FolderDamaged(EmbeddedServerError):
    """The data folder is incomplete or corrupt."""


class FolderOfOtherVersion(EmbeddedServerError):
    """The data folder was made by another major version of PostgreSQL."""


class FolderForbidden(EmbeddedServerError):
    """The data folder can't be read or written by this user."""


class FolderFull(EmbeddedServerError):
    """The disk that holds the data folder is full."""


class FolderBusy(EmbeddedServerError):
    """A lock, a pid file or a socket is in the way."""


class SocketPathTooLong(EmbeddedServerError):
    """No folder with a path short enough for a Unix socket was found."""


QUEUE_BUSY = "PS018"

BY_SQLSTATE: dict[str, type[EngineError]] = {
    "PS001": UnknownTopic,
    "PS002": UnknownQueue,
    "PS003": UnknownReader,
    "PS004": InvalidName,
    "PS005": InvalidArgument,
    "PS006": AlreadyExists,
    "PS007": TooLarge,
    "PS008": QueueExpired,
    "PS009": PermissionDenied,
    "PS010": RebaseNeeded,
    "PS011": StandbyServer,
    "PS012": WrongSchemaVersion,
    "PS013": LogFull,
    "PS014": UnknownDeadLetter,
    "PS015": OtherCluster,
    "PS016": LogTruncated,
    "PS017": StageIncomplete,
    QUEUE_BUSY: QueueBusy,
    "25006": StandbyServer,
    "40001": Conflict,
    "40P01": Conflict,
    "42501": PermissionDenied,
    "53100": DiskFull,
    "55P03": Conflict,
}

# Class 08 is "connection exception"; the others end the connection they arrive on.
_CONNECTION_LOST = ("08", "57P01", "57P02", "57P03", "53300")
# "Data exception": a value that can't be what the function asks for.
_DATA = "22"
_UNDEFINED = ("3F000", "42883", "42P01")
INSTALL_ADVICE = "run `penstock init`, or `psql -f sql/install.sql`, on this database"


def translate(exc: psycopg.Error) -> PenstockError:
    """Give the Penstock error that a database driver's error stands for."""
    code = exc.sqlstate
    if code is None or code.startswith(_CONNECTION_LOST):
        return _without_answer(exc)
    return refusal(code, exc.diag.message_primary or str(exc), exc.diag.message_hint)


def refusal(code: str, message: str, hint: str | None) -> EngineError:
    """The error for what the database said, whichever driver passed it on."""
    # Identifiers are quoted verbatim in every language, so looking for our own is safe.
    if code in _UNDEFINED and "penstock" in message:
        return NotInstalled(f"{message}: {INSTALL_ADVICE}", code=code, hint=hint)
    kind = InvalidArgument if code.startswith(_DATA) else EngineError
    return BY_SQLSTATE.get(code, kind)(message, code=code, hint=hint)


def _without_answer(exc: psycopg.Error) -> PenstockError:
    from psycopg import InterfaceError, OperationalError  # noqa: PLC0415

    text = str(exc).strip() or type(exc).__name__
    if isinstance(exc, OperationalError | InterfaceError):
        return DatabaseUnavailable(
            f"the database can't be reached: {text}\n"
            "Check the DSN (--dsn or PENSTOCK_DSN) and that the server is running."
        )
    return EngineError(text)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors inside the block into Penstock's."""
    try:
        yield
    except UnicodeEncodeError:
        raise unsendable() from None
    except _driver_error() as exc:
        raise translate(exc) from exc


def unsendable() -> InvalidArgument:
    """The error for a text that no database can be told."""
    return InvalidArgument(
        "a text holds half of a surrogate pair, or bytes that are no UTF-8, and can't be sent: "
        "remove them"
    )


def _driver_error() -> type[psycopg.Error]:
    # Asked only when there is an error, so that it costs nothing otherwise.
    import psycopg  # noqa: PLC0415

    return psycopg.Error

"""Who drives a study: one process on SQLite, several on PostgreSQL. A driver's claim ends with its process.

Optuna's heartbeats need `study.optimize`; with ask and tell a trial whose driver died stays RUNNING forever. So every
trial carries its driver's number, and the database knows which drivers are alive: each holds an advisory lock on that
number through its own connection, and the server releases the lock when the connection ends, for whatever reason.
"""

import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from permlab.platform.errors import ConfigError
from permlab.platform.files.secrets import mask

_DRIVERS, _MUTEXES = 0x7065726D, 0x6C6162  # the two kinds of advisory locks
TIMEOUT = 10  # seconds to reach the database


class SoloLease:
    """SQLite takes one writer: a lock on a file beside it keeps others away."""

    def __init__(self, path: Path) -> None:
        self.driver = secrets.randbits(31)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(f"{path}.lock")
        try:
            self.lock.acquire(timeout=0)
        except Timeout:
            raise ConfigError(
                f"another process is tuning on {path}; wait for it, choose another name=, or let several drivers share "
                "tune.storage=postgresql://…"
            ) from None

    @contextmanager
    def mutex(self, name: str) -> Iterator[None]:
        yield

    def alive(self, driver: int | None) -> bool:
        return driver == self.driver

    def close(self) -> None:
        self.lock.release()


class SharedLease:
    """PostgreSQL: any number of drivers."""

    def __init__(self, url: str) -> None:
        self.driver = secrets.randbits(31)
        options = {"connect_timeout": TIMEOUT}
        engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool, connect_args=options)
        self.connection = engine.connect()
        self._call("SELECT pg_advisory_lock(:kind, :number)", _DRIVERS, self.driver)

    @contextmanager
    def mutex(self, name: str) -> Iterator[None]:
        """Let one driver at a time look at the trials of `name` and take one."""
        number = zlib.crc32(name.encode()) >> 1
        self._call("SELECT pg_advisory_lock(:kind, :number)", _MUTEXES, number)
        try:
            yield
        finally:
            self._call("SELECT pg_advisory_unlock(:kind, :number)", _MUTEXES, number)

    def alive(self, driver: int | None) -> bool:
        held = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = :kind "
            "AND objid = :number AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return driver is not None and self._call(held, _DRIVERS, driver) > 0

    def _call(self, statement: str, kind: int, number: int) -> int:
        return self.connection.execute(text(statement), {"kind": kind, "number": number}).scalar() or 0

    def close(self) -> None:
        self.connection.close()


Lease = SoloLease | SharedLease


def open_lease(url: str) -> Lease:
    if url.startswith("sqlite:///"):
        return SoloLease(Path(url.removeprefix("sqlite:///")))
    try:
        return SharedLease(url)
    except (SQLAlchemyError, ImportError) as error:
        raise ConfigError(f"the studies' database {mask(url)} cannot be reached: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "install PermLab with its extra: pip install 'permlab[postgres]'"
    cause = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

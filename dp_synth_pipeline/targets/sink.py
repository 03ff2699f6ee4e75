"""Atomic replacement: readers see the old synthetic table or the new one, never half; a crash leaves the old one.

Files are written beside their target and renamed. DuckDB tables are built under another name and swapped inside one
transaction. Warehouses are in a room of their own.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import formats
from dp_synth_pipeline.tabular.sources import duckdb_uri
from dp_synth_pipeline.tabular.sources.place import same_place
from dp_synth_pipeline.tabular.sources.warehouse import engines
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.tabular.sql import one_file, quoted, readable

WAIT_SECONDS = 300.0
"""How long to wait for a DuckDB file that another process has open."""

LOCKED = "Could not set lock"
"""What DuckDB says of a file that another process has open."""

LOOK_SECONDS = 0.2
"""How often to look whether it has been closed."""

PARQUET = (".parquet", ".pq")

Told = Callable[[str], None]
"""Called with what is being waited for."""


def check_writable(target: str, needed: int = 0, told: Told = lambda why: None) -> None:
    """Refuse a target that cannot be written, before anything is spent on it; wait a while for one that is in use.

    Args:
        needed: bytes that should be free where the target lies, if that is a file.
        told: called if there is something to wait for.

    Raises:
        InvalidInput: if it cannot be made or written, or its folder has too little free space.
    """
    warehouse = engines.engine(target)
    if warehouse is not None:
        warehouse.check_writable()
        return
    if "://" in target and not target.startswith("duckdb://"):
        raise _no_kind(target)
    path = duckdb_uri.split(target)[0] if target.startswith("duckdb://") else Path(target).expanduser()
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidInput(f"{shown(target)} cannot be written: {folder} is not a folder that you may write to.")
    if path.is_dir():
        raise InvalidInput(f"{shown(target)} is a folder; name a file in it.")
    if shutil.disk_usage(folder).free < needed:
        raise InvalidInput(
            f"{shown(target)} cannot be written: the disk is full. Free some space; what was there is intact."
        )
    if target.startswith("duckdb://") and path.exists():
        with opened_duckdb(path, told):
            pass


def check_kind(target: str) -> None:
    """Refuse what no table is written to, by its form alone: nothing is opened.

    Raises:
        InvalidInput: with the forms that there are.
    """
    if engines.engine(target) is not None:
        return
    if target.startswith("duckdb://"):
        duckdb_uri.split(target)
    elif "://" in target or Path(target).suffix.lower() not in (".csv", *PARQUET):
        raise _no_kind(target)


def _no_kind(target: str) -> InvalidInput:
    return InvalidInput(f"{shown(target)}: unknown kind of target. Give {engines.FORMS}.")


def check_spared(target: str, read: Mapping[str, str]) -> None:
    """Refuse a target that is a place which this table is read from, however the two are spelled.

    To be called when settings are read, and again before publishing: a link may have been laid in between.

    Args:
        read: what is read, by its role, such as `{"source": "people.csv"}`.

    Raises:
        InvalidInput: naming the role, since publishing there would replace real rows.
    """
    for role, uri in read.items():
        if same_place(uri, target):
            raise InvalidInput(f"target: it is the {role} itself, whose rows it would replace; name another one.")


@contextmanager
def replacing(path: Path):
    """Yield a temporary path beside `path`; on success it replaces `path` atomically, on failure `path` is untouched."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.chmod(0o644)
        os.replace(partial, path)
    except OSError as error:
        raise _explained(path, error) from None
    except pa.ArrowException as error:
        raise InvalidInput(f"{path} cannot be written ({type(error).__name__}); what was there is intact.") from None
    finally:
        partial.unlink(missing_ok=True)


def write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path) -> int:
    """Stream record batches into a Parquet file that replaces `path` atomically; return the number of rows."""
    rows = 0
    with replacing(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def write_text(text: str, path: Path) -> Path:
    """Write a text file that replaces `path` atomically."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path


def publish(parquet: Path, target: str, told: Told = lambda why: None) -> str:
    """Copy a synthetic Parquet file to its target atomically and return where it is, without secrets.

    Two runs never write one target at once: a DuckDB file and a warehouse's table are locked by whoever writes, and that
    lock dies with its process; other files are replaced by a rename.

    Args:
        told: called if there is something to wait for.
        target: a `.parquet` or `.csv` path, `duckdb:///file.duckdb?table=schema.table`, or what `warehouse.engines` knows.
    """
    warehouse = engines.engine(target)
    if warehouse is not None:
        warehouse.publish(parquet)
        return warehouse.shown
    if target.startswith("duckdb://"):
        return _publish_duckdb(parquet, target, told)
    path = Path(target).expanduser()
    if path.suffix.lower() == ".csv":
        with replacing(path) as partial, _duckdb_errors(path), duckdb.connect() as con:
            con.execute("SET TimeZone = 'UTC'")
            columns = columns_of(parquet, formats.written)
            con.sql(f"SELECT {columns} FROM read_parquet({one_file(parquet)})").write_csv(str(partial), header=True)
        return str(path)
    check_kind(target)
    with replacing(path) as partial:
        shutil.copyfile(parquet, partial)
    return str(path)


def columns_of(parquet: Path, listed: Callable[[pa.Schema], str] = readable) -> str:
    """List the columns of a synthetic file for a SELECT.

    Raises:
        InvalidInput: if the file is gone.
    """
    try:
        return listed(pq.read_schema(parquet))
    except (OSError, pa.ArrowException):
        raise InvalidInput(
            "the synthetic file cannot be written out: it is gone. Materialize `synthetic` again, which is free; what "
            "was published before is intact."
        ) from None


def _publish_duckdb(parquet: Path, uri: str, told: Told) -> str:
    path, name = duckdb_uri.split(uri)
    path.parent.mkdir(parents=True, exist_ok=True)
    *where, last = name
    table, staging = ".".join(map(quoted, name)), ".".join(map(quoted, (*where, f"__next_{last}")))
    with opened_duckdb(path, told) as con:
        if where:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(where[-1])}")
        columns = columns_of(parquet)
        con.execute("SET TimeZone = 'UTC'")
        con.execute("BEGIN")
        con.execute(f"CREATE OR REPLACE TABLE {staging} AS SELECT {columns} FROM read_parquet({one_file(parquet)})")
        con.execute(f"DROP TABLE IF EXISTS {table}")
        con.execute(f"ALTER TABLE {staging} RENAME TO {quoted(last)}")
        con.execute("COMMIT")
    return shown(uri)


@contextmanager
def opened_duckdb(path: Path, told: Told) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file for writing, which one process at a time can; wait for the one that has it open."""
    deadline, announced = time.monotonic() + WAIT_SECONDS, False
    with _duckdb_errors(path):
        while True:
            try:
                con = duckdb.connect(str(path))
                break
            except duckdb.IOException as error:
                if LOCKED not in str(error) or time.monotonic() > deadline:
                    raise
            if not announced:
                told(f"waits for {path.name}, which another program has open")
            announced = True
            time.sleep(LOOK_SECONDS)
        with con:
            yield con


@contextmanager
def _duckdb_errors(path: Path):
    try:
        yield
    except duckdb.Error as error:
        full = "No space left" in str(error)
        why = (
            "the disk is full"
            if full
            else f"another program has had it open for {WAIT_SECONDS:.0f} s; close it there, and run again"
            if LOCKED in str(error)
            else f"DuckDB refused ({type(error).__name__}); is it a DuckDB database?"
        )
        raise InvalidInput(f"{path} cannot be written: {why}. What was there is intact.") from None


def _explained(path: Path, error: OSError) -> InvalidInput:
    if error.errno == errno.ENOSPC:
        return InvalidInput(f"{path} cannot be written: the disk is full. Free some space; what was there is intact.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return InvalidInput(f"{path} cannot be written: permission denied. What was there is intact.")
    return InvalidInput(f"{path} cannot be written ({os.strerror(error.errno or 0)}). What was there is intact.")

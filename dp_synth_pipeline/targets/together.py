"""Publishes related tables together, so that no reader ever sees a row without its parent; a crash leaves the old tables.

DuckDB and PostgreSQL replace all tables in one transaction, and declare their keys. A folder of files is written beside the
old one and takes its place by a rename, so for a moment there may be neither.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations.structure import PublicTable, Related, Relations
from dp_synth_pipeline.tabular.sources import duckdb_uri
from dp_synth_pipeline.tabular.sources.warehouse import engines
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.tabular.sources.warehouse.postgres import Postgres
from dp_synth_pipeline.tabular.sql import one_file, quoted
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.targets.sink import Told

TABLE = "{table}"
"""Where an address names its table."""

FORMS = (
    "a folder, a folder's files such as out/{table}.csv, duckdb:///file.duckdb?table=schema.{table}, or "
    "postgresql://user@host/database?table=schema.{table}"
)
"""What targets of several tables look like, for messages."""


def addresses(names: Sequence[str], target: str) -> dict[str, str]:
    """Return where each table goes.

    Raises:
        InvalidInput: if the target is of no kind that tables are published to together.

    Example:
        >>> addresses(["patients", "visits"], "out")
        {'patients': 'out/patients.parquet', 'visits': 'out/visits.parquet'}
    """
    is_folder = "://" not in target and TABLE not in target
    pattern = str(Path(target) / f"{TABLE}.parquet") if is_folder else target
    if TABLE not in pattern or (is_folder and Path(target).suffix):
        raise InvalidInput(f"target: {shown(target)} holds one table. For several tables, give {FORMS}.")
    found = {name: pattern.replace(TABLE, name) for name in names}
    for address in found.values():
        sink.check_kind(address)
        engine = engines.engine(address)
        if engine is not None and not isinstance(engine, Postgres):
            raise InvalidInput(f"target: {shown(target)} replaces one table at a time. Give {FORMS}.")
        if _is_file(address) and TABLE in str(Path(pattern).parent):
            raise InvalidInput(f"target: files of related tables lie in one folder; give {FORMS}.")
    return found


def check(names: Sequence[str], target: str, read: Mapping[str, str], told: Told = lambda why: None) -> None:
    """Refuse a target that cannot be written, or that is read from, before anything is spent on it.

    Args:
        names: the tables.
        read: what is read, by its role.
        told: called if there is something to wait for.

    Raises:
        InvalidInput: naming the target.
    """
    for address in addresses(names, target).values():
        sink.check_spared(address, read)
        sink.check_writable(address, told=told)
        if _is_file(address):
            _check_folder(Path(address).expanduser(), names)


def publish(
    relations: Relations, files: Mapping[str, Path], target: str, told: Told = lambda why: None
) -> dict[str, str]:
    """Replace all tables by their new rows and return where each is, without secrets.

    Args:
        files: the Parquet file of each table, public ones included.
        told: called if there is something to wait for.
    """
    places = addresses(list(files), target)
    if any(map(_is_file, places.values())):
        _replace_folder(files, places)
    elif target.startswith("duckdb://"):
        _replace_in_duckdb(relations, files, places, told)
    else:
        _replace_in_postgres(relations, files, places)
    return {name: shown(place) for name, place in places.items()}


def _is_file(address: str) -> bool:
    return "://" not in address


def _check_folder(file: Path, names: Sequence[str]) -> None:
    """Refuse a folder that holds anything but these tables: all of it is replaced."""
    own = {f"{name}{file.suffix}" for name in names}
    if file.parent.is_dir() and (others := sorted({p.name for p in file.parent.iterdir()} - own)):
        raise InvalidInput(
            f"target: {file.parent} holds other files, such as {others[0]}, and a folder of related tables is replaced as "
            f"a whole. Name a folder of its own."
        )


def _replace_folder(files: Mapping[str, Path], places: Mapping[str, str]) -> None:
    for place in places.values():
        _check_folder(Path(place).expanduser(), list(files))
    folder = Path(os.path.realpath(Path(next(iter(places.values()))).expanduser().parent))
    folder.parent.mkdir(parents=True, exist_ok=True)
    new, old = (Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)) for _ in range(2))
    try:
        for name, file in files.items():
            sink.publish(file, str(new / Path(places[name]).name))
        new.chmod(0o755)
        if folder.exists():
            os.replace(folder, old)
        os.replace(new, folder)
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


def _replace_in_duckdb(relations: Relations, files: Mapping[str, Path], places: Mapping[str, str], told: Told) -> None:
    path, _ = duckdb_uri.split(places[relations.root.name])
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {name: duckdb_uri.split(place)[1] for name, place in places.items()}
    written = {name: ".".join(map(quoted, parts)) for name, parts in names.items()}
    with sink.opened_duckdb(path, told) as con:
        con.execute("SET TimeZone = 'UTC'")
        for parts in names.values():
            if len(parts) > 1:
                con.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(parts[-2])}")
        con.execute("BEGIN")
        for table in reversed(relations.everything):
            con.execute(f"DROP TABLE IF EXISTS {written[table.name]}")
        for table in relations.everything:
            select = f"SELECT {sink.columns_of(files[table.name])} FROM read_parquet({one_file(files[table.name])})"
            types = con.execute(f"DESCRIBE {select}").fetchall()
            columns = [f"{quoted(name)} {kind}" for name, kind, *_ in types] + _keys(table, relations, written)
            con.execute(f"CREATE TABLE {written[table.name]} ({', '.join(columns)})")
            con.execute(f"INSERT INTO {written[table.name]} {select}")
        con.execute("COMMIT")


def _keys(table: Related | PublicTable, relations: Relations, written: Mapping[str, str]) -> list[str]:
    """Write the keys of a table as SQL's constraints."""
    keys = [] if table.key is None else [f"PRIMARY KEY ({quoted(table.key)})"]
    if isinstance(table, PublicTable):
        return keys
    referred = [(column, name, relations.public_key(name)) for column, name in table.refers]
    if table.parent is not None:
        referred.append((str(table.reference), table.parent, relations[table.parent].key))
    for column, name, key in referred:
        keys.append(f"FOREIGN KEY ({quoted(column)}) REFERENCES {written[name]} ({quoted(str(key))})")
    return keys


def _replace_in_postgres(relations: Relations, files: Mapping[str, Path], places: Mapping[str, str]) -> None:
    tables = {name: Postgres(place) for name, place in places.items()}
    written = {name: table.table for name, table in tables.items()}
    with tables[relations.root.name].transaction() as cursor:
        for table in relations.everything:
            tables[table.name].fill(cursor, files[table.name])
        granted = {table.name: tables[table.name].drop(cursor) for table in reversed(relations.everything)}
        for table in relations.everything:
            tables[table.name].rename(cursor, granted[table.name])
            for key in _keys(table, relations, written):
                cursor.execute(f"ALTER TABLE {written[table.name]} ADD {key}")

"""PostgreSQL by ADBC: rows by binary COPY in both directions, and a swap of tables inside one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources.warehouse import adbc, types
from dp_synth_pipeline.tabular.sources.warehouse.address import Address, split
from dp_synth_pipeline.tabular.sql import literal, quoted

FORM = "postgresql://user@host/database?table=schema.table"
LOCK_TIMEOUT = "60s"
"""How long a swap waits for readers of the old table; new readers queue behind it, so not for ever."""

_PLAIN = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "text": pa.string(),
    "varchar": pa.string(),
    "time": pa.time64("us"),
}
_AS_TEXT = ("bpchar", "name", "uuid", "citext", "json", "jsonb", "inet")

_STORED = {
    pa.bool_(): "boolean",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
    pa.duration("us"): "interval",
    pa.time64("us"): "time",
    pa.string(): "text",
}


@dataclass(frozen=True)
class Column:
    """A column as its catalog describes it, public: its Arrow type, and the expression that reads it so."""

    name: str
    arrow_type: pa.DataType
    expression: str


def column(name: str, type_name: str, category: str, modifier: int) -> Column:
    """Return how a column is read; numerics keep precision and scale, enums and their like become text.

    Args:
        category: `pg_type.typtype`, which is `e` for an enum.
        modifier: `atttypmod`, where a numeric's precision and scale stand; -1 if it has none.

    Example:
        >>> column("cost", "numeric", "b", ((8 << 16) | 2) + 4).arrow_type
        Decimal128Type(decimal128(8, 2))
    """
    name_, plain = quoted(name), _PLAIN.get(type_name)
    if plain is not None:
        return Column(name, plain, name_)
    if category == "e" or type_name in _AS_TEXT:
        return Column(name, pa.string(), f"CAST({name_} AS text)")
    if type_name == "numeric":
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        if modifier >= 4 and precision <= 38 and scale <= precision:
            return Column(name, pa.decimal128(precision, scale), f"CAST({name_} AS text)")
        return Column(name, pa.float64(), f"CAST({name_} AS double precision)")
    if type_name == "interval":  # years as twelve months of thirty days, as everywhere here
        seconds = f"extract(epoch FROM {name_}) - 453600 * extract(year FROM {name_})"
        return Column(name, pa.duration("us"), f"CAST(1000000 * ({seconds}) AS bigint)")
    return Column(name, pa.binary(), name_)


def select(table: str, columns: Sequence[Column], where: str | None) -> str:
    """Write the query that reads these columns, and the rows that the predicate keeps, and nothing else."""
    condition = f" WHERE ({where})" if where else ""
    return f"SELECT {', '.join(c.expression for c in columns) or '1'} FROM {table}{condition}"


def stored(arrow_type: pa.DataType) -> str:
    """Name the PostgreSQL type of a portable Arrow type.

    Raises:
        InvalidInput: if there is none.
    """
    if pa.types.is_decimal(arrow_type):
        return f"numeric({arrow_type.precision},{arrow_type.scale})"
    if arrow_type not in _STORED:
        raise InvalidInput(f"storage type {arrow_type} has no PostgreSQL type; publish this table as Parquet.")
    return _STORED[arrow_type]


Grants = list[tuple[str, str, bool]]
"""Of a table: each privilege, to whom it is granted, and whether they may pass it on."""


class Postgres:
    """One table of a PostgreSQL database."""

    def __init__(self, uri: str) -> None:
        self.address: Address = split(uri, FORM)
        if len(self.address.table) > 2:
            raise InvalidInput(f"{self.shown}: name the table as schema.table. The form is {FORM}.")
        self.schema, self.last = ("public", *self.address.table)[-2:]

    @property
    def shown(self) -> str:
        """The URI without its secrets."""
        return self.address.shown

    @property
    def table(self) -> str:
        """The table's quoted name."""
        return f"{quoted(self.schema)}.{quoted(self.last)}"

    @property
    def staging(self) -> str:
        """Name of the table that is filled; PostgreSQL cuts names at 63 bytes, which could make two of them one."""
        name = f"__next_{self.last}"
        return name if len(name.encode()) < 64 else f"__next_{hashlib.sha256(self.last.encode()).hexdigest()[:32]}"

    def types(self) -> dict[str, pa.DataType]:
        """Return column names and storage types from the catalog; no row is read."""
        with self._reading() as cursor:
            return {c.name: c.arrow_type for c in self._columns(cursor)}

    @contextmanager
    def read(self, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows that `where` keeps, with these columns only, as a stream."""
        with self._reading() as cursor:
            available = {c.name: c for c in self._columns(cursor)}
            selected = [available[name] for name in columns]
            cursor.execute(select(self.table, selected, where))
            schema = pa.schema([pa.field(c.name, c.arrow_type) for c in selected])
            yield types.cast(schema, cursor.fetch_record_batch())

    def check_writable(self) -> None:
        """Refuse what could not be replaced: someone else's table, a view, a schema where tables cannot be made."""
        with self._connected(adbc.WRITING) as cursor:
            if not _one(cursor, f"SELECT to_regnamespace({literal(quoted(self.schema))}) IS NOT NULL"):
                if not _one(cursor, "SELECT has_database_privilege(current_database(), 'CREATE')"):
                    raise InvalidInput(f"{self.shown}: there is no such schema and you may not make it; ask for it.")
                return
            if not _one(cursor, f"SELECT has_schema_privilege({literal(self.schema)}, 'CREATE')"):
                raise InvalidInput(f"{self.shown}: you may not make tables in this schema; ask its owner for CREATE.")
            facts = "relkind = 'r', pg_has_role(relowner, 'USAGE')"
            cursor.execute(f"SELECT {facts} FROM pg_class WHERE oid = to_regclass({literal(self.table)})")
            for is_table, is_owner in cursor.fetchall():
                if not is_table:
                    raise InvalidInput(f"{self.shown} is no ordinary table, so it is not replaced; give another name.")
                if not is_owner:
                    raise InvalidInput(f"{self.shown} belongs to somebody else; ask its owner, or give another name.")

    def publish(self, parquet: Path) -> None:
        """Replace the table by these rows in one transaction; its grants stay; a crash leaves the old table."""
        with self.transaction() as cursor:
            self.fill(cursor, parquet)
            self.rename(cursor, self.drop(cursor))

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor in a transaction that is committed at the end, if nothing failed."""
        with self._connected(adbc.WRITING) as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {literal(LOCK_TIMEOUT)}")
            yield cursor
            cursor.connection.commit()

    def fill(self, cursor: Any, parquet: Path) -> None:
        """Write rows into a table beside this one."""
        rows = types.batches(parquet, types.portable)
        if not _one(cursor, f"SELECT to_regnamespace({literal(quoted(self.schema))}) IS NOT NULL"):
            cursor.execute(f"CREATE SCHEMA {quoted(self.schema)}")
        staging = f"{quoted(self.schema)}.{quoted(self.staging)}"
        columns = ", ".join(f"{quoted(f.name)} {stored(f.type)}" for f in rows.schema)
        cursor.execute(f"DROP TABLE IF EXISTS {staging}")
        cursor.execute(f"CREATE TABLE {staging} ({columns})")
        cursor.adbc_ingest(self.staging, rows, mode="append", db_schema_name=self.schema)

    def drop(self, cursor: Any) -> Grants:
        """Drop this table, if there is one, and return who else might do what with it."""
        granted = self._grants(cursor)
        cursor.execute(f"DROP TABLE IF EXISTS {self.table}")
        return granted

    def rename(self, cursor: Any, granted: Grants) -> None:
        """Give the table that was filled this one's name and grants."""
        cursor.execute(f"ALTER TABLE {quoted(self.schema)}.{quoted(self.staging)} RENAME TO {quoted(self.last)}")
        for privilege, grantee, passed_on in granted:
            option = " WITH GRANT OPTION" if passed_on else ""
            cursor.execute(f"GRANT {privilege} ON {self.table} TO {grantee}{option}")

    def _grants(self, cursor: Any) -> Grants:
        """Return who else may do what with the old table; the information schema would leave out PUBLIC."""
        who = "CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END"
        cursor.execute(
            f"SELECT privilege_type, {who}, is_grantable FROM pg_class, aclexplode(relacl) "
            f"WHERE pg_class.oid = to_regclass({literal(self.table)}) AND grantee <> relowner"
        )
        return cursor.fetchall()

    def _columns(self, cursor: Any) -> list[Column]:
        cursor.execute(
            "SELECT CAST(a.attname AS text), CAST(b.typname AS text), CAST(b.typtype AS text), "
            "CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END "
            "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
            "JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END "
            f"WHERE a.attrelid = to_regclass({literal(self.table)}) AND a.attnum > 0 AND NOT a.attisdropped "
            "ORDER BY a.attnum"
        )
        columns = [column(*row) for row in cursor.fetchall()]
        if not columns:
            raise InvalidInput(f"{self.shown}: there is no such table, or you may not see it; check `table=`.")
        return columns

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Yield a cursor that cannot write, whatever a filter calls, and that reads zoneless literals as UTC."""
        with self._connected(adbc.READING) as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute("SET LOCAL TimeZone = 'UTC'")
            yield cursor

    def _connected(self, promise: str) -> Any:
        uri = self.address.without_table
        return adbc.connected("adbc_driver_postgresql.dbapi", "postgres", self.shown, promise, uri=uri)


def _one(cursor: Any, query: str) -> Any:
    cursor.execute(query)
    return cursor.fetchall()[0][0]

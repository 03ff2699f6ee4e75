"""Snowflake and BigQuery by ADBC: what a URI means to each driver, and the SQL that replaces a table at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources.warehouse import adbc, types
from dp_synth_pipeline.tabular.sources.warehouse.address import Address, split
from dp_synth_pipeline.tabular.sql import quoted

SNOWFLAKE_FORM = "snowflake://user@account/database/schema?table=name&warehouse=name&role=name"
BIGQUERY_FORM = "bigquery://project/dataset?table=name&credentials=/file.json"


def snowflake_arguments(address: Address) -> dict[str, str]:
    """Return the connection's arguments, secrets included.

    Raises:
        InvalidInput: if the URI lacks account, database or schema, or has a parameter that is not known.
    """
    user, password = address.user
    if not address.host or len(address.path) != 2:
        raise InvalidInput(f"{address.shown}: account, database and schema are needed. The form is {SNOWFLAKE_FORM}.")
    option = "adbc.snowflake.sql."
    options = {
        "warehouse": f"{option}warehouse",
        "role": f"{option}role",
        "auth": f"{option}auth_type",
        "token": f"{option}client_option.auth_token",
        "private_key": f"{option}client_option.jwt_private_key",
    }
    arguments = {
        f"{option}account": address.host,
        f"{option}db": address.path[0],
        f"{option}schema": address.path[1],
        "username": user,
        "password": password,
        **_known(address, options, SNOWFLAKE_FORM),
    }
    return {name: value for name, value in arguments.items() if value}


def bigquery_arguments(address: Address) -> dict[str, str]:
    """Return the connection's arguments; without `credentials`, Google's application default credentials hold.

    Raises:
        InvalidInput: if the URI lacks project or dataset, or has a parameter that is not known.
    """
    if not address.host or len(address.path) != 1:
        raise InvalidInput(f"{address.shown}: project and dataset are needed. The form is {BIGQUERY_FORM}.")
    option = "adbc.bigquery.sql."
    options = {"credentials": f"{option}auth_credentials", "location": f"{option}location"}
    arguments = {f"{option}project_id": address.host, f"{option}dataset_id": address.path[0]}
    arguments |= _known(address, options, BIGQUERY_FORM)
    if "credentials" in address.options:
        arguments[f"{option}auth_type"] = f"{option}auth_type.json_credential_file"
    return arguments


def _known(address: Address, options: dict[str, str], form: str) -> dict[str, str]:
    unknown = sorted(set(address.options) - set(options))
    if unknown:
        raise InvalidInput(f"{address.shown}: unknown parameter {unknown[0]!r}. The form is {form}.")
    return {options[name]: value for name, value in address.options.items()}


def backticked(name: str) -> str:
    """Quote a name for BigQuery, whose names hold no backtick.

    Raises:
        InvalidInput: if it holds a backtick or a backslash.
    """
    if "`" in name or "\\" in name:
        raise InvalidInput(f"BigQuery has no name like {name!r}; rename it in the source.")
    return f"`{name}`"


class Cloud(ABC):
    """One table of Snowflake or BigQuery; what differs between them is abstract."""

    module, extra, form = "", "", ""

    def __init__(self, uri: str) -> None:
        self.address = split(uri, self.form)
        if len(self.address.table) != 1:
            raise InvalidInput(f"{self.shown}: name the table alone; its schema stands in the path: {self.form}.")
        self.last = self.address.table[0]
        self.arguments()  # a mistake in the URI is told before anything is imported or spent

    @property
    def shown(self) -> str:
        """The URI without its secrets."""
        return self.address.shown

    @abstractmethod
    def arguments(self) -> dict[str, str]:
        """Return the connection's arguments, secrets included."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """Quote a name."""

    @abstractmethod
    def swap(self) -> list[str]:
        """Return the statements that put the filled staging table in place of the old one, the first of them at once."""

    @property
    def table(self) -> str:
        """The table's quoted name; schema and database are the connection's."""
        return self.quote(self.last)

    @property
    def staging(self) -> str:
        """Name of the table that is filled."""
        return f"__next_{self.last}"

    def select(self, columns: Sequence[str], where: str | None) -> str:
        """Write the query that reads these columns, and the rows that the predicate keeps, and nothing else."""
        condition = f" WHERE ({where})" if where else ""
        return f"SELECT {', '.join(map(self.quote, columns)) or '1'} FROM {self.table}{condition}"

    def types(self) -> dict[str, pa.DataType]:
        """Return column names and storage types from an empty result; no row is read."""
        with self._connected(adbc.READING) as cursor:
            cursor.execute(f"SELECT * FROM {self.table} WHERE 1 = 0")
            return {f.name: f.type for f in cursor.fetch_record_batch().schema}

    @contextmanager
    def read(self, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows that `where` keeps, with these columns only, as a stream."""
        with self._connected(adbc.READING) as cursor:
            cursor.execute(self.select(columns, where))
            yield cursor.fetch_record_batch()

    def check_writable(self) -> None:
        """Refuse a target whose driver is not installed, or whose service does not answer."""
        with self._connected(adbc.WRITING) as cursor:
            cursor.execute("SELECT 1")

    def publish(self, parquet: Path) -> None:
        """Fill a staging table, then replace the old table by it in one statement; a crash leaves the old table."""
        with self._connected(adbc.WRITING) as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {self.quote(self.staging)}")
            cursor.adbc_ingest(self.staging, types.batches(parquet, types.portable_without_durations), mode="create")
            for statement in self.swap():
                cursor.execute(statement)

    def _connected(self, promise: str) -> Any:
        arguments = {"db_kwargs": self.arguments(), "autocommit": True}
        return adbc.connected(self.module, self.extra, self.shown, promise, **arguments)


class Snowflake(Cloud):
    """One table of a Snowflake database."""

    module, extra, form = "adbc_driver_snowflake.dbapi", "snowflake", SNOWFLAKE_FORM

    def arguments(self) -> dict[str, str]:
        """Return the connection's arguments, secrets included."""
        return snowflake_arguments(self.address)

    def quote(self, name: str) -> str:
        """Quote a name, which is then taken letter by letter: `VISITS` and `visits` are two tables."""
        return quoted(name)

    def swap(self) -> list[str]:
        """Clone the staging table over the old one, whose grants stay: one statement, of metadata only."""
        staging = self.quote(self.staging)
        return [f"CREATE OR REPLACE TABLE {self.table} CLONE {staging} COPY GRANTS", f"DROP TABLE {staging}"]


class BigQuery(Cloud):
    """One table of a BigQuery dataset."""

    module, extra, form = "adbc_driver_bigquery.dbapi", "bigquery", BIGQUERY_FORM

    def arguments(self) -> dict[str, str]:
        """Return the connection's arguments."""
        return bigquery_arguments(self.address)

    def quote(self, name: str) -> str:
        """Quote a name in backticks."""
        return backticked(name)

    @property
    def table(self) -> str:
        """The table's quoted name, with its dataset."""
        return f"{self.quote(self.address.path[0])}.{self.quote(self.last)}"

    def swap(self) -> list[str]:
        """Copy the staging table over the old one: one job, which succeeds or changes nothing."""
        staging = f"{self.quote(self.address.path[0])}.{self.quote(self.staging)}"
        return [f"CREATE OR REPLACE TABLE {self.table} COPY {staging}", f"DROP TABLE {staging}"]

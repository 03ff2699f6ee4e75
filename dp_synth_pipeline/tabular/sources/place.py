"""Whether two addresses of tables are one place, however they are spelled: without connecting, and without reading a row.

Where a spelling leaves doubt, the places count as one: to refuse a target costs a name, to replace the source its rows.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path
from urllib.parse import urlsplit

from dp_synth_pipeline.tabular.sources import duckdb_uri
from dp_synth_pipeline.tabular.sources.warehouse import engines
from dp_synth_pipeline.tabular.sources.warehouse.address import Address
from dp_synth_pipeline.tabular.sources.warehouse.cloud import Cloud
from dp_synth_pipeline.tabular.sources.warehouse.delta import Delta
from dp_synth_pipeline.tabular.sources.warehouse.postgres import Postgres

POSTGRES_PORT = "5432"


@dataclass(frozen=True)
class _Files:
    """A file, a folder or a pattern of files; and which table in it, if it is a DuckDB file."""

    path: Path
    table: tuple[str, ...] = ()

    def holds(self, other: Path) -> bool:
        """Whether this is that file, or the folder or the pattern that it is read with."""
        if _one(self.path, other):
            return True
        if has_magic(str(self.path)) and not self.path.exists():
            matches = any(_one(Path(p), other) for p in glob(str(self.path), recursive=True))
            return matches or _fits(_resolved(other).parts, _resolved(self.path).parts)
        return self.path.is_dir() and _resolved(other).is_relative_to(_resolved(self.path))


def same_place(one: str, other: str) -> bool:
    """Whether writing to one of two addresses would change what is read from the other.

    Files are compared by where they lead: `~`, `..`, symbolic and hard links are followed; a folder or a pattern is each of
    its files. Tables of servers are compared without user, password and parameters, with their defaults filled in.

    Example:
        >>> same_place("people.csv", "./data/../people.csv"), same_place("people.csv", "other.csv")
        (True, False)
        >>> same_place("postgresql://ann@localhost/db?table=t", "postgres://127.0.0.1:5432/db?table=public.t")
        True
    """
    a, b = _place(one), _place(other)
    if isinstance(a, _Files) and isinstance(b, _Files):
        if a.table and b.table and a.table != b.table:
            return False
        return a.holds(b.path) or b.holds(a.path)
    return a is not None and a == b


def _place(uri: str) -> _Files | tuple[str, ...] | None:
    """Return where an address leads; None for a table that the package itself brings."""
    if uri.startswith("demo://"):
        return None
    if uri.startswith("duckdb://"):
        path, name = duckdb_uri.split(uri)
        return _Files(path.expanduser(), tuple(part.casefold() for part in ("main", *name)[-2:]))
    warehouse = engines.engine(uri)
    if isinstance(warehouse, Delta):
        return _Files(warehouse.folder)
    if isinstance(warehouse, Postgres):
        return ("postgresql", *_server(warehouse.address), warehouse.schema, warehouse.last)
    if isinstance(warehouse, Cloud):
        host = warehouse.address.host.casefold().removesuffix(".snowflakecomputing.com")
        scheme, parts = uri.partition(":")[0].lower(), (*warehouse.address.path, warehouse.last)
        return (scheme, host, *(p.casefold() if scheme == "snowflake" else p for p in parts))
    return _Files(Path(uri.removeprefix("file://")).expanduser())


def _server(address: Address) -> tuple[str, str, str]:
    """Return host, port and database of a PostgreSQL address, as libpq would find them."""
    options = address.options
    try:
        parts = urlsplit(address.uri)
        host, port = parts.hostname or "", parts.port
    except ValueError:  # several hosts
        host, port = address.host, None
    host = options.get("hostaddr") or options.get("host") or host or os.environ.get("PGHOST", "")
    port_number = str(options.get("port") or port or os.environ.get("PGPORT", POSTGRES_PORT))
    base = address.path[0] if address.path else options.get("dbname") or os.environ.get("PGDATABASE", "")
    return ("localhost" if _here(host) else host.casefold(), port_number, base or address.user[0] or "")


def _here(host: str) -> bool:
    """Whether a host is this machine: no name, a socket's folder, a loopback address, or its own name."""
    if not host or host.startswith("/") or host.casefold() in ("localhost", socket.gethostname().casefold()):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _one(a: Path, b: Path) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return _resolved(a) == _resolved(b)


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _fits(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a path that need not exist would be found by a pattern of paths."""
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return any(_fits(parts[i:], pattern[1:]) for i in range(len(parts)))
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])

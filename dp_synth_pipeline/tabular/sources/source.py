"""What a source's URI means: files, DuckDB tables, warehouses and demos; understood without reading a row or connecting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import duckdb_uri
from dp_synth_pipeline.tabular.sources.warehouse import engines, predicate
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.tabular.sql import literal, one_file, quoted


@dataclass(frozen=True)
class Source:
    """Where rows come from: a SQL relation, and a file that must exist for it; or a warehouse.

    `uri` holds no secret, and `where` is the declared row filter, in the source's own SQL. `parquet` are the files whose
    footers tell zones and durations. `csv` are the files of a CSV, whose `relation` is a quoted path or pattern: it takes
    the header to read it.
    """

    uri: str
    relation: str
    file: Path | None = None
    table: pa.Table | None = None
    attach: str | None = None
    csv: tuple[Path, ...] = ()
    parquet: tuple[Path, ...] = ()
    warehouse: engines.Warehouse | None = None
    where: str | None = None

    @property
    def is_csv(self) -> bool:
        """Whether the rows are text, of which no schema says what it means."""
        return bool(self.csv)

    @property
    def ordered(self) -> bool:
        """Whether each row stands where somebody put it. What a query answers first may hang on all of the rows."""
        return bool(self.csv or self.parquet or self.table is not None)


def parse(uri: str, *, where: str | None = None) -> Source:
    """Understand a source URI without reading a row or connecting.

    Accepted: `file.csv`, `file.parquet` (globs and folders too), `duckdb:///file.duckdb?table=schema.table`,
    `demo://rand_hie` or another table of `demo`, and what `warehouse.engines` knows, such as
    `postgresql://user@host/database?table=schema.table`.

    Args:
        where: a predicate of one row's columns; only rows that it holds for are read. Public by declaration.

    Raises:
        InvalidInput: for an unknown form, a file that does not exist or a filter that looks beyond its row.
    """
    source, judged = _parse(uri), None if where is None else predicate.check(where, engines.dialect(uri))
    return replace(source, uri=shown(uri), where=judged)


def _parse(uri: str) -> Source:
    warehouse = engines.engine(uri)
    if warehouse is not None:
        return Source(uri, "warehouse", warehouse=warehouse)
    if uri.startswith("demo://"):
        from dp_synth_pipeline import demo

        return Source(uri, "demo", table=demo.load(uri.removeprefix("demo://")))
    if uri.startswith("duckdb://"):
        return _parse_duckdb(uri)
    path = Path(uri.removeprefix("file://")).expanduser()
    if path.is_dir():
        inside = tuple(sorted(path.rglob("*.parquet")))
        if not inside:
            raise InvalidInput(
                f"the folder {shown(uri)} holds no .parquet file; name one that does, or the file itself."
            )
        return Source(uri, f"read_parquet({one_file(path)[:-1]}/**/*.parquet')", parquet=inside)
    files = [path] if path.is_file() else [Path(p) for p in sorted(glob(str(path), recursive=True))]
    if not files:
        raise InvalidInput(f"no such file: {shown(uri)}. Give {engines.FORMS}.")
    if files[0].stat().st_size == 0:
        raise InvalidInput(f"{shown(uri)} is empty: it holds no header and no row. Name a file that holds both.")
    named = one_file(path) if path.is_file() else literal(path)  # a file that is there is meant, whatever it is called
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return Source(uri, f"read_parquet({named})", files[0], parquet=tuple(files))
    if suffix in (".csv", ".tsv", ".txt") or path.name.lower().endswith((".csv.gz", ".tsv.gz")):
        return Source(uri, named, files[0], csv=tuple(files))
    raise InvalidInput(f"{shown(uri)}: unknown kind of source. Give {engines.FORMS}.")


def _parse_duckdb(uri: str) -> Source:
    path, table = duckdb_uri.split(uri)
    if not path.is_file():
        raise InvalidInput(f"no such DuckDB file in {shown(uri)}. The form is {duckdb_uri.FORM}.")
    return Source(uri, f"source_db.{'.'.join(map(quoted, table))}", path, attach=str(path))

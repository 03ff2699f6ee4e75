"""The column names that a file itself writes, before DuckDB changes any of them in silence."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources.csv.header import Header, is_data, read_header
from dp_synth_pipeline.tabular.sources.source import Source, parse

__all__ = ["Header", "header_of", "names_at_hand"]


def names_at_hand(uri: str) -> tuple[str, ...]:
    """Return the column names of a source that is one file on this machine; none of a source that is anything else."""
    path = Path(uri.removeprefix("file://")).expanduser()
    return header_of(parse(uri)).names if path.is_file() else ()


def header_of(source: Source) -> Header:
    """Read a file's column names, and refuse names that DuckDB would silently change: empty ones and repeated ones."""
    if source.file is None or source.attach is not None:
        return Header()
    header = _csv_header(source) if source.is_csv else _parquet_header(source.file)
    cells = [n.strip().lower() for n in header.names]
    if source.is_csv and any(cells) and all(map(is_data, cells)):
        raise InvalidInput(
            f"the first line of {source.uri} holds no column names; every cell of it is empty, a number or a date. Add a "
            f"first line that names the columns, or prefix names that are numbers."
        )
    repeated = [n for n, key in zip(header.names, cells, strict=True) if cells.count(key) > 1]
    if repeated:
        quotable = not (source.is_csv and any(n and is_data(n) for n in cells))  # else it may be a row of values
        which = f" {repeated[0]!r}" if quotable else ""
        raise InvalidInput(f"duplicate column name{which} in {source.uri}; rename one of the two.")
    if "" in cells:
        raise InvalidInput(f"a column of {source.uri} has no name; the first line must name every column.")
    return header


def _csv_header(source: Source) -> Header:
    """Read the header line of each file of a CSV, and refuse files whose lines differ or cannot be read."""
    headers = [read_header(file) for file in source.csv]
    for file, header in zip(source.csv, headers, strict=True):
        if not header.names:
            raise InvalidInput(f"{file} cannot be opened: it is damaged or of another format. Name a CSV.")
        if any("\ufffd" in name for name in header.names):
            raise InvalidInput(f"the first line of {file} is not UTF-8 text; save the file as UTF-8 and run again.")
        if header != headers[0]:
            raise InvalidInput(f"the first line of {file} differs from that of {source.csv[0]}; write both alike.")
    return headers[0]


def _parquet_header(path: Path) -> Header:
    try:
        return Header(tuple(pq.read_schema(path).names))
    except (OSError, pa.ArrowException):
        return Header()

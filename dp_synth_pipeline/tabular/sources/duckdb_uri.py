"""`duckdb:///file.duckdb?table=schema.table`: which file, which table; the same for sources and targets."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources.warehouse.address import shown

FORM = "duckdb:///file.duckdb?table=schema.table"


def split(uri: str) -> tuple[Path, tuple[str, ...]]:
    """Return the file and the table's parts.

    As in SQLAlchemy's URLs, three slashes begin a relative path and four an absolute one. Three are also read as absolute
    where only that makes sense: the file, or else its folder, exists there and not below the working folder.

    Raises:
        InvalidInput: if the URI names no file or no table.
    """
    parts = urlsplit(uri)
    if not parts.path.strip("/"):
        raise InvalidInput(f"{shown(uri)} names no DuckDB file. The form is {FORM}.")
    tables = parse_qs(parts.query).get("table")
    if not tables:
        raise InvalidInput(f"{shown(uri)} names no table. The form is {FORM}.")
    return _file(unquote(parts.path)), tuple(tables[0].split("."))


def _file(path: str) -> Path:
    if path.startswith("//"):
        return Path(path[1:])
    relative, absolute = Path(path.lstrip("/")), Path(path)
    for there in (Path.is_file, lambda p: p.parent.is_dir()):
        if there(relative) or there(absolute):
            return relative if there(relative) else absolute
    return relative

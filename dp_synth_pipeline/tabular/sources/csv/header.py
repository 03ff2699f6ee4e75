"""Column names as a CSV's first line writes them, and what separates them."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from dataclasses import dataclass
from pathlib import Path

from dp_synth_pipeline.errors import InvalidInput


@dataclass(frozen=True)
class Header:
    """Column names as the file itself writes them, and what separates them; empty where DuckDB knows them for certain."""

    names: tuple[str, ...] = ()
    delimiter: str = ","


def is_data(cell: str) -> bool:
    """Whether a cell of a first line is a value rather than a name: empty, a number, a truth value, a date or a time."""
    if cell in ("", "true", "false"):
        return True
    if re.fullmatch(r"[$€£]?[-+]?[\d.,' ]*\d[\d.,' ]*(e[-+]?\d+)?[%$€£]?", cell):
        return True
    return re.fullmatch(r"[-+]?\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([t ].*)?|\d{1,2}:\d{2}(:\d{2}.*)?", cell) is not None


def read_header(path: Path) -> Header:
    """Read the first line of a CSV; nothing where it cannot be read.

    Raises:
        InvalidInput: if the file is UTF-16 text.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as start:
            if start.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise InvalidInput(f"{path} is UTF-16 text, not UTF-8; save the file as UTF-8 and run again.")
        with opened(path, "rt", newline="", encoding="utf-8-sig", errors="replace") as lines:
            first = lines.readline()
    except (OSError, EOFError):
        return Header()
    delimiter = max(",;\t|", key=first.count)
    names = next(csv.reader([first], delimiter=delimiter), [])
    return Header(
        tuple(names) or ("",), delimiter
    )  # below a blank line, DuckDB would take the first row for the header

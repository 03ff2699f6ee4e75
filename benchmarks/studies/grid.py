"""Runs the cells of a grid that are missing, one after another, and keeps each in a CSV as soon as it is done."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

Cell = dict[str, Any]


def product(**axes: Sequence[Any]) -> Iterator[Cell]:
    """Yield every combination of the axes' values, the last axis fastest."""
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def run(path: Path, cells: Iterable[Cell], measure: Callable[[Cell], Mapping[str, Any]], repeats: int = 1) -> None:
    """Measure each cell as often as asked, all of them once before any of them twice; what the CSV holds is not repeated.

    A line is appended when its cell is done, so a run that was killed goes on where it was: at the cost of one cell.

    Args:
        measure: returns a cell's figures by name, the same names for all.
    """
    done, cells = _done(path), list(cells)
    for cell, repeat in ((cell, repeat) for repeat in range(repeats) for cell in cells):
        line = {**cell, "repeat": repeat}
        if _key(line) in done:
            continue
        figures = {name: _short(value) for name, value in measure(cell).items()}
        _append(path, line | figures)


def read(path: Path) -> pd.DataFrame:
    """Return all lines that were finished."""
    return pd.read_csv(path)


def _done(path: Path) -> set[tuple[tuple[str, str], ...]]:
    """Return the cells that a CSV holds; a last line that was cut short is removed."""
    if not path.exists():
        return set()
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    lines = list(csv.DictReader(whole.splitlines()))
    return {_key({k: v for k, v in line.items() if k in _named(line)}) for line in lines}


def _named(line: Mapping[str, Any]) -> list[str]:
    """Return what names a cell: all before `repeat`, and that."""
    names = list(line)
    return names[: names.index("repeat") + 1]


def _key(line: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in line.items())


def _append(path: Path, line: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    begins = not path.exists() or path.stat().st_size == 0
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(line), lineterminator="\n")
        if begins:
            writer.writeheader()
        writer.writerow(line)


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value

"""Measures which types the cells of a CSV's columns have: noisy histograms of classes, and then of spellings.

A CSV says nothing of its types, so they are a query about rows like any other. First, each cell of a column falls into one
of `classes.CLASSES`, and the narrowest type is chosen that fits nearly all cells which the noise lets one see. Then the days
and the clocks of columns that hold some fall into one of a public list of spellings, which choose the format. How many
columns that is, is released already, and the noise of the second step is spread over them: its cost is fixed beforehand.

One unit has at most `max_rows` rows, and each row lies in one cell of each histogram, so a unit moves each by at most
`max_rows` (L2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import numpy as np

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.odometer import ROUNDING, Odometer
from dp_synth_pipeline.tabular.profiling.grid import SURE
from dp_synth_pipeline.tabular.sources.csv import classes, spelling
from dp_synth_pipeline.tabular.sources.csv.declared import Untyped
from dp_synth_pipeline.tabular.sources.csv.values import TEMPORAL, TEXT, CellType
from dp_synth_pipeline.tabular.sql import connection_beside, literal, quoted

SURE_OF_CODES = 4.0
"""Deviations of noise from which codes are seen: fewer than of other classes, since a number loses zeros for good."""

SPELLINGS = 4
"""The weight of all histograms of spellings together, in histograms of classes."""


@dataclass(frozen=True)
class TypesPlan:
    """The noise of types, fixed from public facts and the noisy row count.

    Attributes:
        scale: noise of a cell of a histogram of classes, in rows.
        columns: how many columns are measured.
        unit: the privacy unit, whose rows are bounded already.
    """

    scale: float
    columns: int
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)

    @property
    def events(self) -> tuple[Event, ...]:
        """What types cost at most, whatever the rows are: the classes of each column, and all spellings together."""
        noise_multiplier = self.scale / self.unit.max_rows
        return Gaussian(noise_multiplier, self.columns), Gaussian(noise_multiplier / math.sqrt(SPELLINGS))


def weight(columns: int) -> float:
    """Return how many histograms of classes the types of so many columns cost."""
    return columns + SPELLINGS


@dataclass(frozen=True)
class Types:
    """Released types of a CSV's columns.

    Attributes:
        cells: what the cells of each column are.
        misfits: the noisy share of a column's cells that its type does not hold; only where noise does not explain it.
        set_aside: noisy number of lines that were set aside; None where it was not measured.
        kinds: the kind of each column whose cells identify somebody, and of which nothing was declared.
        hints: the kind of each column whose cells do so if they hardly repeat.
    """

    cells: Mapping[str, CellType]
    misfits: Mapping[str, float] = field(default_factory=dict)
    set_aside: int | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)


def measure(
    path: Path, columns: Sequence[Untyped], plan: TypesPlan, odometer: Odometer, set_aside: int | None = None
) -> Types:
    """Measure the types of a snapshot's text columns with the noise that `plan` fixed.

    Args:
        path: a Parquet snapshot whose rows per unit are bounded already.
        columns: the columns, as many as the plan says.
        odometer: of the plan's events, as they were charged.
        set_aside: how many lines were set aside, where a line is a unit; each is a unit that lies in no other cell.
    """
    with connection_beside(path) as con:
        con.execute(f"CREATE VIEW cells AS SELECT * FROM read_parquet({literal(path)}, hive_partitioning = false)")
        exact = [_counts(con, classes.class_of("cell"), c.name, classes.CLASSES) for c in columns]
        if set_aside is not None:
            exact[0] = np.append(exact[0], set_aside)
        noisy = _noisy(exact, plan.scale, plan, odometer)
        lines = None if set_aside is None else _lines(int(noisy[0][len(classes.CLASSES)]), plan.scale)
        counts = [dict(zip(classes.CLASSES, map(float, n), strict=False)) for n in noisy]
        seen = {c.name: _seen(n, plan.scale) for c, n in zip(columns, counts, strict=True)}
        chosen = {c.name: _chosen(c, seen[c.name]) for c in columns}
        cells = {**chosen, **_spelled(con, columns, chosen, plan, odometer)}
    misfits = {c.name: _misfits(cells[c.name], n, plan.scale) for c, n in zip(columns, counts, strict=True)}
    shares = {name: share for name, share in misfits.items() if share}
    return Types(cells, shares, lines, _told(classes.kind_of, seen), _told(classes.hint_of, seen))


def _told(ask: Callable[[Mapping[str, float]], str | None], seen: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Return what the seen classes tell of each column; nothing of those that they tell nothing of."""
    told = {name: ask(counts) for name, counts in seen.items()}
    return {name: kind for name, kind in told.items() if kind is not None}


def _lines(noisy: int, scale: float) -> int:
    """Return a number of lines that noise does not explain; else 0."""
    return noisy if noisy >= 3 * scale else 0


def _chosen(column: Untyped, seen: Mapping[str, float]) -> CellType:
    return classes.choose(seen, column.allowed, numbers=column.numbers) or column.otherwise


def _spelled(
    con: duckdb.DuckDBPyConnection,
    columns: Sequence[Untyped],
    chosen: Mapping[str, CellType],
    plan: TypesPlan,
    odometer: Odometer,
) -> dict[str, CellType]:
    """Return the types of days and times with their formats; text where nobody can tell how to read them."""
    days = [n for n, c in chosen.items() if c.sql in TEMPORAL and c.sql != "TIME"]
    clocks = [n for n, c in chosen.items() if c.sql in TEMPORAL and c.sql != "DATE"]
    if not days and not clocks:
        return {}
    scale = (1 + ROUNDING) * plan.scale * math.sqrt((len(days) + len(clocks)) / SPELLINGS)
    exact = [_counts(con, spelling.day_spelling("cell"), n, spelling.DAYS) for n in days]
    exact += [_counts(con, spelling.clock_spelling("cell"), n, spelling.CLOCK_SPELLINGS) for n in clocks]
    noisy = _noisy(exact, scale, plan, odometer)
    day_counts = {n: _seen(dict(zip(spelling.DAYS, c, strict=True)), scale) for n, c in zip(days, noisy, strict=False)}
    clock_counts = {
        n: _seen(dict(zip(spelling.CLOCK_SPELLINGS, c, strict=True)), scale)
        for n, c in zip(clocks, noisy[len(days) :], strict=True)
    }
    orders = {n: spelling.day_orders(seen) for n, seen in day_counts.items()}
    decided = {fit[0] for fit in orders.values() if len(fit) == 1}
    declared = {c.name for c in columns if c.allowed is not None}
    written: dict[str, CellType] = {}
    for name in dict.fromkeys([*days, *clocks]):
        day = ""
        if name in orders:  # a column that two orders fit follows another one of its file
            sure = [order for order in orders[name] if order in decided]
            doubtful = orders[name] if name in declared or name not in clock_counts else []
            day = next(iter([*sure, *doubtful]), None)
            day = None if day is None else spelling.padded(day, day_counts[name])
        clock = spelling.clock_format(clock_counts[name]) if name in clock_counts else ""
        written[name] = _format(chosen[name], day, clock, declared=name in declared)
    return written


def _format(cell_type: CellType, day: str | None, clock: str | None, *, declared: bool) -> CellType:
    """Return a type with its format; text if nothing says how to read it, since only ISO is read without a format."""
    if day is None:
        return cell_type if declared else CellType(TEXT)
    return replace(cell_type, format=None if clock is None else day + clock)


def _misfits(cell_type: CellType, counts: Mapping[str, float], scale: float) -> float:
    """Return the noisy share of cells that are no value of the type, if noise does not explain it; else 0."""
    wrong = classes.misfits(cell_type)
    count = sum(counts[c] for c in wrong)
    if not wrong or count < 3 * scale * math.sqrt(len(wrong)):
        return 0.0
    filled = sum(n for c, n in counts.items() if c not in (classes.EMPTY, classes.WORD))
    return min(1.0, count / max(filled, count))


def _seen(counts: Mapping[str, float], scale: float) -> dict[str, float]:
    """Return the counts that noise does not explain."""
    sure = {classes.CODE: SURE_OF_CODES}
    return {name: float(count) for name, count in counts.items() if count >= sure.get(name, SURE) * scale}


def _counts(con: duckdb.DuckDBPyConnection, key: str, name: str, names: Sequence[str]) -> np.ndarray:
    """Count the cells of a column by a public list of names. Exact, so it may not leave without noise."""
    cells = f"SELECT trim({quoted(name)}) AS cell FROM cells"
    found = dict(con.execute(f"SELECT {key} AS name, count(*) FROM ({cells}) GROUP BY 1").fetchall())
    return np.array([found.get(n, 0) for n in names], dtype=np.int64)


def _noisy(histograms: Sequence[np.ndarray], scale: float, plan: TypesPlan, odometer: Odometer) -> list[np.ndarray]:
    noisy, _ = mechanisms.noisy_histograms(histograms, scale=scale, sensitivity=plan.unit.max_rows, odometer=odometer)
    return noisy

"""Finds, by noisy counts, which dates and datetimes are the same as others of their row, or hardly ever before them.

A discharge comes after an admission, and an admission's day is that of the arrival. Modelled each by itself, they would
agree no better than their cells do. So each pair of such columns has one histogram: how many days lie between the two. What
it shows is what a person may declare of a column, `same_as` or `after` another one, and is treated like it from there on.
A column whose name is that of a part of a date, such as month, has one histogram beside each date: whether it is that part.

One row lies in one cell of each histogram, so a unit with at most `max_rows` rows moves each by at most `max_rows` (L2).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular import date_parts, offsets
from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds.base import MOMENT, Column
from dp_synth_pipeline.tabular.profiling import grid

BREAKS = 0.05
"""Part of the rows in which a fact that is found may not hold: typing errors, taken for the nearest that keep it."""

MOST, SURE = 0.2, 2.0
"""A fact that more than this part of the rows may break, at so many deviations of noise, is not found."""

NEAR = 0.75
"""Part of the rows in which what comes after another column does so within a year. A birth is before a visit, too, but a
visit is not known by its distance from it."""

NOISE = 1 / 400
"""Noise of a cell as a part of the units: with it, facts are found of columns that nine rows in ten lack."""

YEAR = 366
"""Days in a year, at most."""

SAME, CELLS = 2, 7
"""Cells of a histogram, by where the second column lies: over a year before, within a year before, the same, within a year
after, over a year after; then the rows in which one column alone has a value, the first's first. `SAME` is the third."""

BROKEN = SAME + 1
"""Cells of rows in which a column is not after another one: it is before it, or stands alone."""

BATCH = 1 << 17


class Pair(NamedTuple):
    """Two columns by their names: two dates; or a date, and a column that may be a part of it."""

    first: str
    second: str
    part: str | None = None


Pairs = tuple[Pair, ...]


@dataclass(frozen=True)
class DatesPlan:
    """The histograms that tell how dates hang on each other, and their noise; from public facts and the noisy row count.

    Attributes:
        pairs: the pairs of columns, each of which has a histogram.
        scale: noise of a cell, in rows.
        unit: the privacy unit, whose rows are bounded already.
    """

    pairs: Pairs
    scale: float
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)

    @property
    def events(self) -> tuple[Event, ...]:
        """What all histograms together cost, whatever the rows are."""
        return (Gaussian(self.scale / self.unit.max_rows, len(self.pairs)),)


def dates(schema: TableSchema) -> tuple[str, ...]:
    """Return the names of the dates and datetimes that are learned, in table order."""
    return tuple(c.name for c in schema.learned if c.kind.family == MOMENT)


def parts(schema: TableSchema) -> tuple[str, ...]:
    """Return the names of the columns that may be parts of dates by their names and kinds, if there is any date."""
    return tuple(c.name for c in schema.learned if _parts_of(c)) if dates(schema) else ()


def _parts_of(column: Column) -> list[str]:
    """Return the parts that a column may be: numbers, texts or a boolean, as it holds them."""
    texts, whether = date_parts.named(column.name, as_text=True), pa.types.is_boolean(column.arrow_type)
    if column.kind.name == "integer":
        return [*date_parts.named(column.name), *(part for part in texts if part == "weekend")]
    if column.categories is not None or column.kind.name not in ("category", "boolean"):
        return []
    return [part for part in texts if (part == "weekend") == whether]


def pairs(schema: TableSchema, free: Collection[str]) -> Pairs:
    """Return the pairs of columns of which one at least may be found to hang on the other.

    Args:
        free: the columns that may.
    """
    two_dates = [Pair(*pair) for pair in combinations(dates(schema), 2) if not set(pair).isdisjoint(free)]
    of_dates = [
        Pair(base, name, part)
        for name in parts(schema)
        if name in free
        for part in _parts_of(schema[name])
        for base in dates(schema)
        if date_parts.PARTS[part].of_day or schema[base].kind.name == "datetime"
    ]
    return (*two_dates, *of_dates)


def finds_any(scale: float, rows: float) -> bool:
    """Say whether a fact that holds in all of so many rows would be found as a rule, at this noise."""
    return MOST * rows >= (SURE + 1) * scale * math.sqrt(BROKEN)


def few(broken: float, rows: float, noise: float) -> bool:
    """Say whether so few rows break a fact, by noisy counts, that it is found.

    Args:
        noise: standard deviation of `broken`.
    """
    most = min(BREAKS * rows + noise, MOST * rows - SURE * noise)
    return broken <= most and most >= 0  # else noise hides whether there are rows


def measure(
    path: Path,
    schema: TableSchema,
    free: Collection[str],
    plan: DatesPlan,
    odometer: Odometer,
    last: Collection[str] = (),
) -> dict[str, dict[str, str]]:
    """Return what noisy counts tell of columns, as a person would declare it: `{"left": {"after": "came"}}`.

    Args:
        path: a Parquet snapshot whose rows per unit are bounded already.
        free: the columns that may be found to hang on another one.
        odometer: of the plan's events, as they were charged.
        last: the columns on which none hangs, and which are the same as none, but may be after one.
    """
    exact = _counts(path, schema, plan)
    noisy, _ = mechanisms.noisy_histograms(exact, scale=plan.scale, sensitivity=plan.unit.max_rows, odometer=odometer)
    return _chosen(schema, (free, last), dict(zip(plan.pairs, noisy, strict=True)), plan.scale)


def hung(schema: TableSchema, found: Mapping[str, Mapping[str, str]]) -> TableSchema:
    """Return the schema with what was found of its columns.

    Raises:
        InvalidInput: if a column cannot hang so.
    """
    return offsets.checked(TableSchema(tuple(replace(c, **found.get(c.name, {})) for c in schema)))


def _counts(path: Path, schema: TableSchema, plan: DatesPlan) -> list[np.ndarray]:
    """Count the rows of each pair by the days between its columns; private."""
    counts = [np.zeros(CELLS, dtype=np.int64) for _ in plan.pairs]
    names = list(dict.fromkeys(name for pair in plan.pairs for name in pair))
    for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=names):
        rows = pa.Table.from_batches([batch])
        for total, pair in zip(counts, plan.pairs, strict=True):
            second = schema[pair.second]
            second = second if pair.part is None else replace(second, same_as=pair.first, part=pair.part)
            total += _cells(rows, schema[pair.first], second)
    return counts


def _cells(rows: pa.Table, first: Column, second: Column) -> np.ndarray:
    """Count rows by their cell: by the days from the first column to the second one, or from its part of a date."""
    start, end = (rows.column(c.name).combine_chunks() for c in (first, second))
    if first.kind.name == "date" and second.kind.name == "datetime":
        days, null, none = _between(start, end, first, second)
        days = -days
    else:
        days, none, null = _between(end, start, second, first)
    both = ~(null | none)
    cell = SAME + np.sign(days) * (1 + (np.abs(days) > YEAR))
    counts = np.bincount(cell[both].astype(np.int64), minlength=CELLS)
    counts[-2:] = np.count_nonzero(~null & none), np.count_nonzero(null & ~none)
    return counts


def _between(
    values: pa.Array, bases: pa.Array, column: Column, base: Column
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the days from a base to a column, float64 (rows,), and which of either are null; whole days of a date."""
    (end, null), (start, none) = offsets.points_of(values, column), offsets.placed(bases, base, column)
    unit = grid.DAY if column.kind.name == "datetime" else 1
    return (end.astype(np.float64) - start.astype(np.float64)) / unit, null, none


class _Fact(NamedTuple):
    """Something that a person might declare of a column: its name, `after` or `same_as`, and on which other one it hangs.

    Attributes:
        part: of which part of the base it is told, if of one.
        broken: in how many rows it does not hold, with noise; of parts alone, of which a column may hold several.
    """

    column: str
    name: str
    base: str
    part: str | None = None
    broken: float = 0.0

    @property
    def declared(self) -> dict[str, str]:
        """What a person would declare of the column."""
        return {self.name: self.base, **({} if self.part is None else {"part": self.part})}


def _chosen(
    schema: TableSchema,
    able: tuple[Collection[str], Collection[str]],
    counts: Mapping[Pair, np.ndarray],
    scale: float,
) -> dict[str, dict[str, str]]:
    """Return what ties each column most, so that none hangs on itself and each on one other at most.

    Args:
        able: the columns that may hang on others, and those of them on which none does; see `measure`.
    """
    (free, last), told = able, (f for pair, c in counts.items() for f in _facts(schema, pair, c.astype(float), scale))
    facts = [f for f in told if f.base not in last and (f.column not in last or f.name == offsets.AFTER)]
    latest = Counter(fact.column for fact in facts if fact.name == offsets.AFTER)  # what is after most lies nearest
    found: dict[str, dict[str, str]] = {}
    for fact in sorted(facts, key=lambda f: (f.name == offsets.AFTER, -latest[f.base], f.broken)):
        same = fact.column in last and offsets.SAME_AS in found.get(
            fact.base, {}
        )  # then it is after the other one as well
        if fact.column in free and fact.column not in found and not same:
            tried = {**found, fact.column: fact.declared}
            found = tried if _can_hang(schema, tried) else found
    return found


def _can_hang(schema: TableSchema, found: Mapping[str, Mapping[str, str]]) -> bool:
    """Say whether a person might declare all that was found, and nothing that they declared would change by it."""
    try:
        return all(c.nulls is schema[c.name].nulls for c in hung(schema, found))
    except InvalidInput:
        return False


def _facts(schema: TableSchema, pair: Pair, cells: np.ndarray, scale: float) -> list[_Fact]:
    """Return the facts that noise does not explain, of one pair of columns; the first one as a base first."""
    (first, second, part), (lone_first, lone_second) = pair, cells[-2:]
    same, before, after = cells[SAME], cells[:SAME].sum(), cells[SAME + 1 : -2].sum()
    rows, unequal = same + before + after, before + after + lone_first + lone_second

    def holds(broken: float, cells_of: int) -> bool:
        return few(broken, rows, scale * math.sqrt(cells_of))

    if part is not None:
        return [_Fact(second, offsets.SAME_AS, first, part, unequal)] if holds(unequal, CELLS - 1) else []
    found = []
    if holds(unequal, CELLS - 1):
        days = {name: schema[name].kind.name == "date" for name in (first, second)}  # a datetime is not told by its day
        found += [_Fact(second, offsets.SAME_AS, first)] if days[second] or not days[first] else []
        found += [_Fact(first, offsets.SAME_AS, second)] if days[first] or not days[second] else []
    if cells[1 : 2 * SAME].sum() >= NEAR * rows:
        found += [_Fact(second, offsets.AFTER, first)] if holds(before + lone_second, BROKEN) else []
        found += [_Fact(first, offsets.AFTER, second)] if holds(after + lone_first, BROKEN) else []
    return found

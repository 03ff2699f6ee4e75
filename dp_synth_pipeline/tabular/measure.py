"""One private pass over a snapshot: a noisy row count, then noisy fine histograms of every column.

Everything that leaves this module is noised by `privacy.mechanisms`, or declared. The number of histograms and their
noise are fixed before the first count, from public facts: kinds and declarations.

One unit moves each histogram by at most `max_rows` (L2), so m histograms cost m Gaussian mechanisms. Which cells the
refined histogram has depends on noisy counts only; its noise does not, so the cost is that of a fixed plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Event, Threshold
from dp_synth_pipeline.tabular import grid
from dp_synth_pipeline.tabular.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, Kind, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.source import quoted

MAX_DECIMALS = 6
"""Digits after the point that are told apart; more means full precision."""


@dataclass(frozen=True)
class ProfilePlan:
    """The noise of a profile, fixed from public facts alone.

    Attributes:
        count_epsilon: pure epsilon of the row count; None if the population is declared.
        scale: discrete Gaussian parameter of every histogram cell, in rows.
        threshold_delta: chance, in all, that a value held by one unit alone is named.
        unit: the privacy unit, whose rows are bounded already.
        population: declared number of units, public; None to count them.
    """

    count_epsilon: float | None
    scale: float
    threshold_delta: float
    unit: PrivacyUnit = PrivacyUnit()
    population: int | None = None

    def count_events(self) -> tuple[Event, ...]:
        """What the row count costs."""
        return () if self.count_epsilon is None else (DiscreteLaplace(1 / self.count_epsilon, 1),)

    def histogram_events(self, schema: TableSchema) -> tuple[Event, ...]:
        """What the histograms cost; the same whatever the rows are."""
        events: list[Event] = [DiscreteGaussian(self.scale, self.unit.max_rows, histograms(schema, self.unit))]
        if any(_thresholded(c) for c in schema.learned):
            events.append(Threshold(self.threshold_delta))
        return tuple(events)


def histograms(schema: TableSchema, unit: PrivacyUnit) -> int:
    """Count the histograms that a profile of `schema` takes."""
    extra = unit.column is not None or _drops(schema)  # one more cell: how many rows are left to train on
    return sum(_queries(c) for c in schema.learned) + int(extra)


def _queries(column: Column) -> int:
    if not column.kind.numeric:
        return 1
    counts_decimals = column.kind is Kind.DECIMAL and column.decimals is None and not _fixed_scale(column)
    return 3 + int(counts_decimals)


def _thresholded(column: Column) -> bool:
    return column.kind.numeric or (column.kind is Kind.CATEGORY and column.categories is None)


def _drops(schema: TableSchema) -> bool:
    return any(c.nulls is NullPolicy.DROP for c in schema.learned)


def _fixed_scale(column: Column) -> bool:
    return pa.types.is_decimal(column.arrow_type)


def measure_population(units: int, plan: ProfilePlan) -> int:
    """Return the declared population, or the noisy count of units; at least 1."""
    if plan.count_epsilon is None:
        return max(1, plan.population or 1)
    noisy, _ = mechanisms.noisy_count(units, epsilon=plan.count_epsilon)
    return max(1, noisy)


def measure(path: Path, schema: TableSchema, plan: ProfilePlan, population: int) -> TableProfile:
    """Profile the snapshot at `path` with the noise that `plan` fixed; each histogram is read once.

    Args:
        path: a Parquet snapshot whose rows per unit are bounded already.
        population: the noisy or declared number of units, from `measure_population`.
    """
    pass_ = _Pass(path, schema, plan, population)
    rows = pass_.rows()
    columns = tuple(pass_.numeric(c) if c.kind.numeric else pass_.category(c) for c in schema.learned)
    events = plan.count_events() + plan.histogram_events(schema)
    return TableProfile(population, rows, str(plan.unit), columns, events)


class _Pass:
    def __init__(self, path: Path, schema: TableSchema, plan: ProfilePlan, population: int) -> None:
        self.path, self.schema, self.plan, self.population = path, schema, plan, population
        self.sensitivity = plan.unit.max_rows
        # Counts under `floor` are never candidates, so a lone unit can lift a cell only from below it: the threshold
        # starts at floor - 1 + sensitivity. This keeps near-unique columns cheap and costs a quarter of a deviation.
        self.floor = max(1, round(plan.scale / 4))
        keys = sum(_thresholded(c) for c in schema.learned) * self.sensitivity
        self.threshold = self.floor - 1 + mechanisms.threshold(
            plan.scale, plan.threshold_delta, keys=max(keys, 1), sensitivity=self.sensitivity
        )
        self.total = float(population)

    def rows(self) -> int:
        """Measure how many rows training will see; the population itself if rows are units and none is dropped."""
        if histograms(self.schema, self.plan.unit) == sum(_queries(c) for c in self.schema.learned):
            return self.population
        drops = [c.name for c in self.schema.learned if c.nulls is NullPolicy.DROP]
        kept = " AND ".join(f"{quoted(n)} IS NOT NULL" for n in drops) or "true"
        everything, left = self._sql(f"SELECT count(*), count(*) FILTER (WHERE {kept}) FROM snapshot")[0]
        # Two cells of one histogram: the rows left, and the others.
        noisy = self._noisy(np.array([left, everything - left]))
        self.total = float(max(1, noisy.sum()))
        return int(max(1, noisy[0]))

    def category(self, column: Column) -> ColumnProfile:
        """Measure a category or boolean: named values, the rest as `other`, nulls."""
        names = column.categories
        if column.kind is Kind.BOOLEAN:
            names = ("true", "false")
        found = dict(self._counts(column, self.floor if names is None else 1))
        nulls = self._nulls(column)
        keys = list(found) if names is None else list(names)
        noisy = self._noisy(np.array([nulls, *(found.get(k, 0) for k in keys)]))
        null, cells = noisy[0], noisy[1:]
        if names is None:
            shown = cells >= self.threshold
            keys, cells = [k for k, s in zip(keys, shown, strict=True) if s], cells[shown]
        null_rate = self._rate(null)
        present = self.total * (1 - null_rate)
        other = max(0.0, present - cells.sum()) if column.kind is Kind.CATEGORY else 0.0
        if other < 3 * self.plan.scale * math.sqrt(len(cells) + 1):
            other = 0.0
        share = grid.to_probabilities(np.append(cells, other) if other else cells, present) * (1 - null_rate)
        order = np.argsort(-share[: len(keys)], kind="stable")
        values: list[Any] = [keys[i] for i in order]
        if column.kind is Kind.BOOLEAN:
            values = [v == "true" for v in values]
        return ColumnProfile(
            column.name,
            column.kind,
            tuple(values),
            tuple(float(share[i]) for i in order),
            other=float(share[-1]) if other else 0.0,
            null_rate=null_rate,
            declared=column.declared,
        )

    def numeric(self, column: Column) -> ColumnProfile:
        """Measure a number, date or datetime: heavy values, then refined cells for the rest, nulls, decimals."""
        found = self._counts(column, self.floor)
        counts = self._noisy(np.array([n for _, n in found], dtype=np.int64))
        heavy = {v: float(c) for (v, _), c in zip(found, counts, strict=True) if c >= self.threshold}
        edges = self._clipped(grid.public_edges(column.kind), column)
        coarse = np.zeros(len(edges), dtype=np.int64)
        digits = np.zeros(MAX_DECIMALS + 2, dtype=np.int64)
        for x, nulls in self._axis(column):
            coarse[:-1] += grid.count_cells(x, edges)
            coarse[-1] += nulls
            if column.kind is Kind.DECIMAL and _queries(column) == 4:
                digits += _digits(x)
        noisy = self._noisy(coarse)
        null_rate = self._rate(noisy[-1])
        decimals = self._decimals(column, digits)
        fine = grid.refine(edges, noisy[:-1], self.plan.scale, grid.step(column.kind, decimals))
        cells = np.zeros(len(fine) - 1, dtype=np.int64)
        known = np.array(sorted(heavy), dtype=np.float64)
        for x, _ in self._axis(column):
            cells += grid.count_cells(x[~np.isin(x, known)], fine)
        values = list(heavy)
        both = np.concatenate([[heavy[v] for v in values], self._noisy(cells)])
        share = grid.to_probabilities(both, self.total * (1 - null_rate)) * (1 - null_rate)
        kept = share[len(values) :] > 0
        bins = [(float(a), float(b)) for a, b, k in zip(fine[:-1], fine[1:], kept, strict=True) if k]
        return ColumnProfile(
            column.name,
            column.kind,
            tuple(values),
            tuple(float(s) for s in share[: len(values)]),
            tuple(bins),
            tuple(float(s) for s in share[len(values) :][kept]),
            null_rate=null_rate,
            decimals=decimals,
            declared=column.declared,
        )

    def _decimals(self, column: Column, digits: np.ndarray) -> int | None:
        if column.kind is not Kind.DECIMAL:
            return None
        if column.decimals is not None:
            return column.decimals
        if _fixed_scale(column):
            return column.arrow_type.scale  # type: ignore[attr-defined]
        noisy = self._noisy(digits)
        beyond = np.cumsum(noisy[::-1])[::-1]  # rows with at least d digits
        limit = max(3 * self.plan.scale * math.sqrt(len(noisy)), 0.005 * self.total)
        needed = int(np.flatnonzero(np.append(beyond[1:], 0) <= limit)[0])
        return None if needed > MAX_DECIMALS else needed

    def _clipped(self, edges: np.ndarray, column: Column) -> np.ndarray:
        low = -math.inf if column.lower is None else grid.axis_value(column.lower)  # type: ignore[arg-type]
        high = math.inf if column.upper is None else grid.axis_value(column.upper)  # type: ignore[arg-type]
        width = grid.step(column.kind, column.decimals)
        inside = edges[(edges > low) & (edges < high + width)]
        ends = [np.array([v]) if math.isfinite(v) else np.zeros(0) for v in (low, high + width)]
        return np.unique(np.concatenate([ends[0], inside, ends[1]]))

    def _rate(self, noisy_nulls: float) -> float:
        """A null rate that noise does not explain, else 0; at most 0.999 so that something is left to learn."""
        if noisy_nulls < 3 * self.plan.scale:
            return 0.0
        return float(min(noisy_nulls / max(self.total, 1.0), 0.999))

    def _noisy(self, histogram: np.ndarray) -> np.ndarray:
        if len(histogram) == 0:
            return histogram.astype(np.int64)
        (noisy,), _ = mechanisms.noisy_histograms([histogram], scale=self.plan.scale, sensitivity=self.sensitivity)
        return noisy

    def _counts(self, column: Column, floor: int) -> list[tuple[Any, int]]:
        name = quoted(column.name)
        key = {
            Kind.BOOLEAN: f"CASE WHEN {name} THEN 'true' ELSE 'false' END",
            Kind.CATEGORY: f"CAST({name} AS VARCHAR)",
            Kind.DATE: f"CAST(date_diff('day', DATE '1970-01-01', CAST({name} AS DATE)) AS DOUBLE)",
            Kind.DATETIME: f"CAST(epoch_us({name}) AS DOUBLE)",
        }.get(column.kind, f"CAST({name} AS DOUBLE)")
        return self._sql(
            f"SELECT {key} AS k, count(*) AS n FROM snapshot WHERE {name} IS NOT NULL "
            f"GROUP BY 1 HAVING count(*) >= {floor} ORDER BY 1"
        )

    def _nulls(self, column: Column) -> int:
        return self._sql(f"SELECT count(*) FROM snapshot WHERE {quoted(column.name)} IS NULL")[0][0]

    def _axis(self, column: Column):
        for batch in pq.ParquetFile(self.path).iter_batches(1 << 18, columns=[column.name]):
            x, null = grid.to_axis(batch.column(0), column.kind)
            yield x[~null], int(null.sum())

    def _sql(self, query: str) -> list[tuple]:
        with duckdb.connect() as con:
            con.execute("SET threads = 2")
            con.from_parquet(str(self.path)).create_view("snapshot")
            return con.execute(query).fetchall()


def _digits(x: np.ndarray) -> np.ndarray:
    """Count values by how many digits after the point they need: 0 to MAX_DECIMALS, and more."""
    needed = np.full(len(x), MAX_DECIMALS + 1)
    for d in range(MAX_DECIMALS, -1, -1):
        needed[np.isclose(np.round(x, d), x, rtol=1e-12, atol=1e-12)] = d
    return np.bincount(needed, minlength=MAX_DECIMALS + 2).astype(np.int64)



"""Categories, ordinals and booleans: codes for released values, the rarest merged, suppressed categories and nulls apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile

MAX_CODES = 64
"""Codes of released values at most; rarer ones share a code and are drawn by their released weights."""


class CategoricalCodec:
    """Codes: runs of released values, then `other`, then null, each only if needed.

    A run is one value, but for the last, which holds all the rarest. `other` is drawn only if the column has a label for
    it. A column of which nothing was released has one code, which decodes to null.

    Attributes:
        values: the released values, likeliest first.
        own: how many of them have a code of their own.
        starts: where each run begins among them.
    """

    def __init__(self, column: Column, profile: ColumnProfile, *, keep_nulls: bool) -> None:
        self.column, self.label = column, column.label
        self.values, self.weights = list(profile.values), np.array(profile.weights, dtype=float)
        self.starts = self._runs()
        self.own = int((np.diff(self.starts, append=len(self.values)) == 1).sum())
        n = len(self.starts)
        self.other = n if profile.other > 0 and self._apart() else None
        n += self.other is not None
        if n == 0:
            self.null, self.cardinality, self.marginal = 0, 1, np.ones(1)
            return
        self.null = n if keep_nulls and profile.null_rate > 0 else None
        self.cardinality = n + (self.null is not None)
        runs = np.add.reduceat(self.weights, self.starts) if len(self.starts) else np.zeros(0)
        if self.other is None and runs.sum() > 0:
            runs = runs * (runs.sum() + profile.other) / runs.sum()
        other = [] if self.other is None else [profile.other]
        marginal = np.concatenate([runs, other, [] if self.null is None else [profile.null_rate]])
        self.marginal = marginal / max(marginal.sum(), 1e-12)

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Codes that generation must not draw: suppressed categories, unless they have a label or there is no other."""
        return (self.other,) if self.other is not None and self.label is None and len(self.starts) else ()

    @property
    def released(self) -> range:
        """Codes that may stand for a forbidden one; null is not among them, so that nulls keep their rate."""
        return range(len(self.starts))

    @property
    def single(self) -> np.ndarray:
        """Which codes stand for one value, bool (cardinality,)."""
        found = np.zeros(self.cardinality, bool)
        found[: len(self.starts)] = np.diff(self.starts, append=len(self.values)) == 1
        if self.other is not None:
            found[self.other] = self.label is not None
        return found

    @property
    def order(self) -> range:
        """The codes of values in an order: names have none."""
        return range(0)

    def encode(self, values: pa.Array) -> np.ndarray:
        """Return codes, int64 (rows,). A value without a code takes the last code it may: other, rare, or code 0."""
        null = np.asarray(values.is_null())
        if self.cardinality == 1 and self.null == 0:
            return np.zeros(len(values), np.int64)
        text = values if pa.types.is_boolean(values.type) else pc.cast(values, pa.string())
        index = np.asarray(pc.index_in(text, value_set=self._names()).fill_null(-1)).astype(np.int64)  # type: ignore[attr-defined]
        suppressed = (index < 0) & ~null
        codes = np.searchsorted(self.starts, index, side="right") - 1
        if suppressed.any():
            codes[suppressed] = self._suppressed(text.filter(pa.array(suppressed)))
        codes[null] = 0 if self.null is None else self.null
        return codes

    def decode(self, codes: np.ndarray, rng: np.random.Generator, quantiles: np.ndarray | None = None) -> pa.Array:
        """Return values of the column's storage type; a run of several is drawn by the released weights.

        Args:
            quantiles: as for numbers; names have none.
        """
        del quantiles
        codes = codes.astype(np.int64)
        null = codes == (-1 if self.null is None else self.null)
        other = codes == (-1 if self.other is None else self.other)
        index = np.zeros(len(codes), np.int64)
        released = ~null & ~other
        index[released] = self._drawn(codes[released], rng)
        if self.label is None:
            return self._names().take(pa.array(index, mask=null | other)).cast(self.column.arrow_type)
        index[other] = len(self.values)
        names = pa.array([*self.values, self.label], pa.string())
        return names.take(pa.array(index, mask=null)).cast(self.column.arrow_type)

    def _drawn(self, runs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a value's index for each run."""
        if len(self.starts) == 0:
            return np.zeros(len(runs), np.int64)
        cumulative = np.append(0.0, np.cumsum(self.weights + 1e-12))
        ends = np.append(self.starts[1:], len(self.values))
        first, last = cumulative[self.starts[runs]], cumulative[ends[runs]]
        target = first + rng.random(len(runs)) * (last - first)
        return np.clip(np.searchsorted(cumulative, target, side="right") - 1, self.starts[runs], ends[runs] - 1)

    def _names(self) -> pa.Array:
        return pa.array(self.values, type=self.column.kind.name_type)

    def _runs(self) -> np.ndarray:
        return np.arange(min(len(self.values), MAX_CODES), dtype=np.int64)

    def _apart(self) -> bool:
        """Whether suppressed categories have a code, as opposed to that of a neighbour."""
        return True

    def _suppressed(self, text: pa.Array) -> np.ndarray | int:
        """Return the codes of values without a name."""
        return self.other if self.other is not None else len(self.starts) - 1 if self.own < len(self.values) else 0


class OrdinalCodec(CategoricalCodec):
    """Codes that keep the values' order; a run of several is a rare value with its neighbours.

    Whole numbers without declared categories have no `other`: those without a name take the nearest one's code.
    """

    @property
    def order(self) -> range:
        """The codes of released values, in the scale's order."""
        return range(len(self.starts))

    def _runs(self) -> np.ndarray:
        """Merge the lightest run with its lighter neighbour until there are few enough."""
        starts, mass = np.arange(len(self.values), dtype=np.int64), self.weights.copy()
        while len(starts) > MAX_CODES:
            i = int(np.argmin(mass))
            right = i == 0 or (i + 1 < len(mass) and mass[i + 1] < mass[i - 1])
            left = i if right else i - 1
            mass[left] += mass[left + 1]
            starts, mass = np.delete(starts, left + 1), np.delete(mass, left + 1)
        return starts

    def _apart(self) -> bool:
        return self.column.categories is not None or len(self.values) == 0

    def _suppressed(self, text: pa.Array) -> np.ndarray | int:
        if self._apart():
            return super()._suppressed(text)
        points = np.array([float(v) for v in self.values])
        x = np.asarray(pc.cast(text, pa.float64()))
        right = np.clip(np.searchsorted(points, x), 1, max(len(points) - 1, 1))
        if len(points) == 1:
            return np.zeros(len(x), np.int64)
        nearest = np.where(x - points[right - 1] <= points[right] - x, right - 1, right)
        return np.searchsorted(self.starts, nearest, side="right") - 1

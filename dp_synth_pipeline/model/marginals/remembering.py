"""Combines a refresh's noisy counts with those of the releases before it. It reads released numbers alone, so it is free.

Each clique's shares of rows are followed by a Kalman filter: what was known of a cell loses certainty by a drift, and what
is measured anew counts by its noise, which is known. How much a clique drifts is not known, so each of a few drifts is
tried, and what they tell is averaged by how likely each makes the new counts, given the old ones. How common each drift is
over all cliques is found by maximum likelihood on the same numbers (empirical Bayes), so that hundreds of cliques of few
cells tell together what no single one could. The mixture is then taken for one Gaussian again (generalised pseudo-Bayes of
the first order: Bar-Shalom, Li & Kirubarajan 2001, "Estimation with Applications to Tracking and Navigation", 11.6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals

DRIFTS = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Variances of the drift of a cell between two releases, each times the cell's own share of rows. The last one doubles or
empties a cell of one row in a hundred: after it, nothing of what was known is left."""

COMMON = (0.94, *(0.01,) * 6)
"""How common each is taken to be before any was seen."""

TURNS = 8
"""Steps of the search for how common each drift is; each ends nearer to it."""

PRIOR = 4.0
"""Cliques that `COMMON` weighs as much as in that search, so that few cliques rule nothing out."""

EVEN = 0.03
"""Part of a clique's drift that its cells share evenly, so that a cell that was empty is seen to fill. More costs distance
where cells drift by their size (Adult census: found flat up to here)."""

LOST = 0.5
"""Part of the cliques that must have drifted as far as can be before what was known of the table is given up."""

SURE = 3.0
"""Standard deviations of noise by which a number of rows must differ from the known one before it is taken for another."""


@dataclass(frozen=True)
class Rows:
    """The number of rows, as noisy counts tell it.

    Attributes:
        mean, variance: in rows, and in rows squared.
    """

    mean: float
    variance: float

    @classmethod
    def told_by(cls, measured: Marginals) -> Rows:
        """Return what the sums of all cliques tell, each by its noise; the number that was known, if noise hides them."""
        cells = np.diff(measured.layout.offsets)
        sums = np.add.reduceat(measured.counts, measured.layout.offsets[:-1])
        weight = float((1 / cells).sum())
        mean, variance = float((sums / cells).sum()) / weight, measured.scale**2 / weight
        return cls(mean if mean > max(SURE * math.sqrt(variance), 1.0) else float(measured.rows), variance)

    def updated(self, new: Rows) -> Rows:
        """Return what both tell, each by its noise; what is new alone, if noise does not explain how far they are apart."""
        both = self.variance + new.variance
        if abs(new.mean - self.mean) > SURE * math.sqrt(both):
            return new
        return Rows((self.mean * new.variance + new.mean * self.variance) / both, self.variance * new.variance / both)


@dataclass(frozen=True)
class Memory:
    """What all releases so far tell of the marginals, each cell a Gaussian.

    Attributes:
        layout: the cliques, and where their cells lie.
        shares: mean share of rows in each cell, float64 (cells,); may be negative.
        variance: of each share, float64 (cells,).
        common: how common each of `DRIFTS` is among the cliques, float64 (drifts,).
        rows: the number of rows.
    """

    layout: Layout
    shares: np.ndarray
    variance: np.ndarray
    common: np.ndarray
    rows: Rows

    @classmethod
    def begun(cls, measured: Marginals) -> Memory:
        """Return what one release tells by itself."""
        return cls._of(measured, Rows.told_by(measured))

    @classmethod
    def _of(cls, measured: Marginals, rows: Rows) -> Memory:
        noise = np.full(measured.layout.cells, (measured.scale / rows.mean) ** 2)
        return cls(measured.layout, measured.counts / rows.mean, noise, np.array(COMMON), rows)

    @property
    def lost(self) -> bool:
        """Whether the table drifted so far that nothing of what was known of it is left."""
        return bool(self.common[-1] > LOST)

    @property
    def marginals(self) -> Marginals:
        """The combined counts, with one noise for all cells: the root of the mean variance."""
        rows = self.rows.mean
        scale = math.sqrt(float(self.variance.mean())) * rows
        return Marginals(self.layout, self.shares * rows, scale, max(round(rows), 1))

    def moved(self, measured: Marginals) -> np.ndarray:
        """Return how far each clique moved until a further release, as the expected total variation distance, (cliques,).

        What noise explains is no move: it is the mean over what each cell's move may have been, given both noisy counts.
        """
        new, drifted = self._against(measured)
        missed = new.shares - self.shares
        each, _ = self._likely(missed, [before + new.variance for before in drifted])
        distances = [self._distance(missed, before - self.variance, self.variance + new.variance) for before in drifted]
        return np.minimum((each * np.stack(distances, 1)).sum(1), 1.0)

    def _distance(self, missed: np.ndarray, drift: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the expected distance of each clique, if its cells drift and are blurred by these variances, (cliques,)."""
        from scipy.special import ndtr

        part = drift / (drift + noise)
        mean, deviation = part * missed, np.sqrt(part * noise)
        ratio = np.divide(mean, deviation, out=np.zeros_like(mean), where=deviation > 0)
        size = deviation * math.sqrt(2 / math.pi) * np.exp(-np.square(ratio) / 2) + mean * (1 - 2 * ndtr(-ratio))
        return np.add.reduceat(size, self.layout.offsets[:-1]) / 2

    def updated(self, measured: Marginals) -> Memory:
        """Return what is known with one more release, which measured the same cliques."""
        new, drifted = self._against(measured)
        missed = new.shares - self.shares
        each, common = self._likely(missed, [before + new.variance for before in drifted])
        cells = np.diff(self.layout.offsets)
        chance = [np.repeat(each[:, i], cells) for i in range(len(DRIFTS))]
        gains = [before / (before + new.variance) for before in drifted]
        gain = sum((p * g for p, g in zip(chance, gains, strict=True)), np.zeros(len(missed)))
        variance = np.zeros(len(missed))
        for p, g, before in zip(chance, gains, drifted, strict=True):
            variance += p * ((1 - g) * before + np.square((g - gain) * missed))
        return Memory(self.layout, self.shares + gain * missed, variance, common, new.rows)

    def _against(self, measured: Marginals) -> tuple[Memory, list[np.ndarray]]:
        """Return what a further release tells by itself, and the variance of what was known after each of `DRIFTS`."""
        new = Memory._of(measured, self.rows.updated(Rows.told_by(measured)))
        sizes = self._sizes()
        return new, [self.variance + drift * sizes for drift in DRIFTS]

    def _sizes(self) -> np.ndarray:
        """Return the share by which each cell drifts, (cells,): mostly its own, and a little of what is the same for all."""
        cells = np.diff(self.layout.offsets)
        return (1 - EVEN) * np.maximum(self.shares, 0.0) + EVEN * np.repeat(1 / cells, cells)

    def _likely(self, missed: np.ndarray, variances: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return how likely each drift is, in each clique (cliques, drifts) and over all of them (drifts,)."""
        starts = self.layout.offsets[:-1]
        logs = [np.add.reduceat(-0.5 * (np.log(v) + np.square(missed) / v), starts) for v in variances]
        likelihood = np.exp(np.stack(logs, 1) - np.max(logs, 0)[:, None])
        each, common = likelihood, self.common
        for _ in range(TURNS):
            each = likelihood * common
            each = each / each.sum(1, keepdims=True)
            common = (each.sum(0) + PRIOR * np.array(COMMON)) / (len(each) + PRIOR)
        return each, common

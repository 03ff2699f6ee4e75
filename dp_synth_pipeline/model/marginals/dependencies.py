"""Columns that others determine, as an airport does its city: found in noisy pairs and kept in draws. Post-processing: free.

Noise hides which of a pair's cells are empty one by one, and a model draws some rows in each. All of them together tell:
where a code determines another, nothing is left beside its largest cell, and the largest cells add up to as many rows of
each code as there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dp_synth_pipeline.model.marginals.measuring import Clique, Layout, Marginals

SURE = 4.0
"""Standard deviations of noise above which it is known with which code another one goes."""

HELD = 3.0
"""Standard deviations of noise above which a cell beside the largest, or a code beside them all, is taken to hold rows."""

UNEXPLAINED = 1.0
"""The same of a code that is largest nowhere: it has rows, and would hardly be drawn if it could stand beside nothing."""

EXPLAINED = 2.0
"""Standard deviations of noise that explain what lies beside the largest cells."""

MOST_BESIDE = 0.1
"""Part of the rows that are not of the most frequent code that may lie beside the largest cells, noise included."""

MOST_OTHERS = 0.15
"""Part of the rows whose code surely goes with another one that may have something else, such as a null."""

LEAST_SURE = 0.5
"""Part of the rows of whose codes it is known with which another one goes, at least."""


@dataclass(frozen=True)
class Frequencies:
    """How many rows have each code of a column, from all pairs that it is in.

    Attributes:
        counts: rows of each code, float64 (codes,).
        noise: standard deviation of each.
    """

    counts: np.ndarray
    noise: float


def impossible(measured: Marginals) -> np.ndarray:
    """Return which cells of pairs no row has, as a code of one column determines that of the other, bool (cells,)."""
    never = np.zeros(measured.layout.cells, bool)
    frequencies = _frequencies(measured)
    for clique, place in measured.layout.places():
        if len(clique) == 2:
            cells = measured.counts[place].reshape([measured.layout.cardinalities[c] for c in clique])
            first, second = (frequencies[c] for c in clique)
            found = _beside(cells, first, second, measured.scale) | _beside(cells.T, second, first, measured.scale).T
            never[place] = found.ravel()
    return never


def pairs(measured: Marginals) -> list[Clique]:
    """Return the pairs of columns of which one determines the other."""
    return [clique for clique, never in measured.layout.blocks(impossible(measured)) if never.any()]


def _frequencies(measured: Marginals) -> dict[int, Frequencies]:
    """Return how frequent the codes of each column are: the mean of what its pairs say, by what they know."""
    said: dict[int, list[tuple[np.ndarray, float]]] = {}
    for (first, second), cells in _pairs(measured.layout, measured.counts):
        said.setdefault(first, []).append((cells.sum(1), cells.shape[1]))
        said.setdefault(second, []).append((cells.sum(0), cells.shape[0]))
    found = {}
    for column, each in said.items():
        weights = np.array([1 / cells for _, cells in each])
        counts = np.average([counts for counts, _ in each], axis=0, weights=weights)
        found[column] = Frequencies(counts, measured.scale / math.sqrt(weights.sum()))
    return found


def _pairs(layout: Layout, flat: np.ndarray) -> Iterator[tuple[Clique, np.ndarray]]:
    return ((clique, cells) for clique, cells in layout.blocks(flat) if len(clique) == 2)


def _beside(cells: np.ndarray, rows: Frequencies, columns: Frequencies, noise: float) -> np.ndarray:
    """Return which cells lie beside the one that their row's code determines, bool (codes, codes); none if noise hides that.

    A code of the second column that is more frequent than the largest cells explain, such as a null, may stand anywhere.

    Args:
        cells: noisy counts of the code that determines, by row, and of what it determines, by column.
    """
    codes, largest, most = np.arange(cells.shape[1]), cells.argmax(1), cells.max(1)
    sure, none = (most > SURE * noise) & (rows.counts > SURE * rows.noise), np.zeros(cells.shape, bool)
    whole = rows.counts[sure].sum()
    if whole < LEAST_SURE * rows.counts.sum() or most[sure].sum() < (1 - MOST_OTHERS) * whole:
        return none  # as nearly all pairs do, at little cost
    beside = sure[:, None] & (codes != largest[:, None])
    explained = np.bincount(largest[sure], rows.counts[sure], minlength=len(codes))
    left, deviation = _left(cells, (rows, columns), noise, beside, explained)
    anywhere = left > np.where(explained > 0, HELD, UNEXPLAINED) * deviation
    held = np.bincount(largest[sure], most[sure], minlength=len(codes)) * ~anywhere
    rest, of_rest = left[~anywhere].sum(), math.sqrt(np.square(deviation[~anywhere]).sum())
    bound = min(EXPLAINED * of_rest, MOST_BESIDE * (held.sum() - held.max()) - of_rest)
    if held.sum() < (1 - MOST_OTHERS) * whole or max(rest, 0) > bound:
        return none
    return beside & ~anywhere & (cells <= HELD * noise)


def _left(
    cells: np.ndarray,
    frequencies: tuple[Frequencies, Frequencies],
    noise: float,
    beside: np.ndarray,
    explained: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many rows of each code lie beside the largest cells, and the standard deviation of that, float64 (codes,).

    It is told twice: by the cells there, and by what is left of the code's rows without the largest cells, and without rows
    of which it is not sure with which code they go. The mean of both, by what each knows, is taken.

    Args:
        explained: how many rows the largest cells explain of each code.
    """
    (rows, columns), sure = frequencies, np.asarray(beside.any(1))
    there, of_there = (cells * beside).sum(0), np.square(noise) * beside.sum(0)
    left = columns.counts - explained - cells[~sure].sum(0)
    largest = (sure[:, None] & ~beside).sum(0)
    of_left = columns.noise**2 + largest * rows.noise**2 + np.square(noise) * (~sure).sum()
    weight = of_left / np.maximum(of_there + of_left, 1e-300)
    return weight * there + (1 - weight) * left, np.sqrt(weight * of_there)

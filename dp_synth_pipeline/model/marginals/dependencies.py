"""Columns that others determine, as an airport does its city: found in noisy pairs, kept in draws. Post-processing: free.

Noise hides which of a pair's cells are empty one by one, and a model draws some rows in each. All of them together tell:
where a code determines another, nothing is left beside its largest cell, and the largest cells add up to as many rows of
each code as there are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_synth_pipeline.model.marginals.measuring import Clique, Marginals

SURE = 4.0
"""Standard deviations of noise above which it is known with which code another one goes, if a half of its rows do."""

HELD = 3.0
"""Standard deviations of noise above which a cell beside the largest is taken to hold rows."""

ANYWHERE = 4.0
"""The same of a code beside all largest cells: it may stand with any code then, as a null may."""

UNEXPLAINED = 1.0
"""The same of a code that is largest nowhere: it has rows, and would hardly be drawn if it could stand beside nothing."""

EXPLAINED = 3.0
"""Standard deviations of noise that explain what lies beside the largest cells."""

MOST_BESIDE = 0.1
"""Part of the rows that are not of the most frequent code that may lie beside the largest cells, noise included."""

MOST_OTHERS = 0.15
"""Part of the rows whose code surely goes with another one that may have something else, such as a null."""

LEAST_SURE = 0.5
"""Part of the rows of whose codes it is known with which another one goes, at least."""


@dataclass(frozen=True)
class Frequencies:
    """How many rows have each code of a column, from all counts that it is in.

    Attributes:
        counts: rows of each code, float64 (codes,).
        noise: standard deviation of each.
    """

    counts: np.ndarray
    noise: float


@dataclass(frozen=True)
class Impossible:
    """Which codes of two columns no row has together, as one of them determines the other.

    Attributes:
        cells: of each pair of columns, bool (codes, codes).
    """

    cells: Mapping[Clique, np.ndarray]

    @classmethod
    def of(cls, measured: Marginals) -> Impossible:
        """Return what noisy counts tell of the pairs among them."""
        return cls({clique: never for clique, never in measured.layout.blocks(impossible(measured)) if never.any()})

    def among(self, columns: Collection[int]) -> Impossible:
        """Return what is known of pairs of these columns."""
        return Impossible({pair: never for pair, never in self.cells.items() if set(pair) <= set(columns)})

    def with_(self, known: Mapping[Clique, np.ndarray]) -> Impossible:
        """Return it with pairs of which it is known without any count."""
        return Impossible({**self.cells, **known})

    def to_list(self) -> list[dict[str, Any]]:
        """Return it for JSON: of each pair of columns, how many codes they have, and which go with one that not all do."""
        return [
            {"columns": list(clique), "codes": list(never.shape), "possible": _possible(never)}
            for clique, never in self.cells.items()
        ]

    @classmethod
    def from_list(cls, saved: Sequence[Mapping[str, Any]]) -> Impossible:
        """Return what `to_list` told."""
        cells = {}
        for pair in saved:
            never = np.zeros(pair["codes"], bool)
            for code, possible in pair["possible"]:
                never[code] = True
                never[code, possible] = False
            cells[tuple(pair["columns"])] = never
        return cls(cells)


NOTHING = Impossible({})
"""What is not known to be impossible: all may be."""


def _possible(never: np.ndarray) -> list[tuple[int, list[int]]]:
    return [(int(code), np.flatnonzero(~never[code]).tolist()) for code in np.flatnonzero(never.any(1))]


def impossible(measured: Marginals) -> np.ndarray:
    """Return which cells of pairs no row has, as a code of one column determines that of the other, bool (cells,)."""
    never = np.zeros(measured.layout.cells, bool)
    known = frequencies(measured)
    for clique, place in measured.layout.places():
        if len(clique) == 2:
            cells = measured.counts[place].reshape([measured.layout.cardinalities[c] for c in clique])
            first, second = (known[c] for c in clique)
            found = _beside(cells, first, second, measured.scale) | _beside(cells.T, second, first, measured.scale).T
            never[place] = found.ravel()
    return never


def pairs(measured: Marginals) -> list[Clique]:
    """Return the pairs of columns of which one determines the other."""
    return list(Impossible.of(measured).cells)


def frequencies(measured: Marginals) -> dict[int, Frequencies]:
    """Return how frequent the codes of each column are: the mean of what all counts of it say, by what they know."""
    said: dict[int, list[tuple[np.ndarray, float]]] = {}
    for clique, cells in measured.layout.blocks(measured.counts):
        for axis, column in enumerate(clique):
            others = tuple(a for a in range(len(clique)) if a != axis)
            said.setdefault(column, []).append((cells.sum(others), cells.size / cells.shape[axis]))
    found = {}
    for column, each in said.items():
        weights = np.array([1 / cells for _, cells in each])
        counts = np.average([counts for counts, _ in each], axis=0, weights=weights)
        found[column] = Frequencies(counts, measured.scale / math.sqrt(weights.sum()))
    return found


def _beside(cells: np.ndarray, rows: Frequencies, columns: Frequencies, noise: float) -> np.ndarray:
    """Return which cells lie beside the one that their row's code determines, bool (codes, codes); none if noise hides that.

    A code of the second column that is more frequent than the largest cells explain, such as a null, may stand anywhere.

    Args:
        cells: noisy counts of the code that determines, by row, and of what it determines, by column.
    """
    codes, largest, most = np.arange(cells.shape[1]), cells.argmax(1), cells.max(1)
    sure, none = most > np.maximum(SURE * noise, rows.counts / 2), np.zeros(cells.shape, bool)
    whole = rows.counts[sure].sum()
    if whole < LEAST_SURE * rows.counts.sum() or most[sure].sum() < (1 - MOST_OTHERS) * whole:
        return none  # as nearly all pairs do, at little cost
    beside = sure[:, None] & (codes != largest[:, None])
    explained = np.bincount(largest[sure], most[sure], minlength=len(codes))
    left, deviation = _left(cells, columns, noise, beside, explained)
    anywhere = left > np.where(explained > 0, ANYWHERE, UNEXPLAINED) * deviation
    held = explained * ~anywhere
    rest, of_rest = _rest(cells, rows, noise, beside, anywhere)
    by_codes = np.square(deviation[~anywhere]).sum()
    rest, of_rest = _mean((left[~anywhere].sum(), by_codes), (rest, of_rest))
    bound = min(EXPLAINED * of_rest, MOST_BESIDE * (held.sum() - held.max()) - of_rest)
    if held.sum() < (1 - MOST_OTHERS) * whole or max(rest, 0) > bound:
        return none
    return beside & ~anywhere & (cells <= HELD * noise)


def _left(
    cells: np.ndarray, columns: Frequencies, noise: float, beside: np.ndarray, explained: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many rows of each code lie beside the largest cells, and the standard deviation of that, float64 (codes,).

    It is told twice: by the cells there, and by what is left of the code's rows without the largest cells, and without rows
    of which it is not sure with which code they go.

    Args:
        explained: how many rows the largest cells hold of each code.
    """
    sure = np.asarray(beside.any(1))
    there, of_there = (cells * beside).sum(0), np.square(noise) * beside.sum(0)
    left = columns.counts - explained - cells[~sure].sum(0)
    of_left = columns.noise**2 + np.square(noise) * (~beside).sum(0)
    return _mean((there, of_there), (left, of_left))


def _rest(
    cells: np.ndarray, rows: Frequencies, noise: float, beside: np.ndarray, anywhere: np.ndarray
) -> tuple[float, float]:
    """Return how many rows lie beside the largest cells of all codes but those that may stand anywhere, and its variance.

    It is what is left of the rows of each code that determines one, without its largest cell and without such codes.
    """
    sure = np.asarray(beside.any(1))
    largest = ~beside[sure]
    ours = ~(largest & anywhere).any(1)
    taken = (largest | anywhere)[ours]
    left = rows.counts[sure][ours].sum() - (cells[sure][ours] * taken).sum()
    return float(left), float(ours.sum() * rows.noise**2 + np.square(noise) * taken.sum())


def _mean(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the mean of two measurements of the same by what each knows, and its standard deviation.

    Args:
        one: a measurement, and its variance.
    """
    weight = other[1] / np.maximum(one[1] + other[1], np.finfo(float).tiny)
    return weight * one[0] + (1 - weight) * other[0], np.sqrt(weight * one[1])

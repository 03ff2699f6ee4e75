"""Weighs what the codes of two columns of a row are, so that drawn rows have pairs about as often as was counted: no ε.

DP-SGD is slow to learn which values of one row go together, such as what kind a payment is and what it is for. How many rows
have both was counted with less noise. So the log-odds of a column's code are moved by what an earlier column of its row is:
by the codes for which both stand, whatever says "as in another row". Weights move by a part of what is missed, again and
again, upon histories that were drawn anew (iterative proportional fitting: Deming & Stephan 1940).

Counts of rare pairs are noise for the most part. How far the weights of a pair of columns may lie from 0 is told by how much
more is missed than noise would explain (empirical Bayes: Robbins 1956); of each, the move is the likeliest one. Where noise
explains all that is missed, nothing moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from dp_synth_pipeline.model.histories.levelling import Histories
from dp_synth_pipeline.model.marginals.measuring import Clique, Marginals

FILE = "pair_weights.safetensors"
"""Beside the weights of a table whose rows are weighed so."""

RATE = 0.8
"""Part of a move that is made each time, by all weights of a column together: what moves its own codes makes a part, too."""

MOST, TRIED = 1.0, 41
"""The most by which log-odds move at a time, and how many moves from that downwards to that upwards are tried."""

LEAST = 1e-12
"""Variance of a share, at least: where there is no noise, and nothing was drawn by chance, as good as none."""


@dataclass
class PairWeights:
    """What is added to the log-odds of one column's codes by the code of another column of the row, drawn before it.

    Attributes:
        cells: by both columns, float32 (codes of the first, codes of the second).
    """

    cells: dict[Clique, np.ndarray] = field(default_factory=dict)

    @classmethod
    def begin(cls, measured: Marginals, without: Collection[int] = ()) -> Self:
        """Return weights of 0 for all measured pairs.

        Args:
            without: columns whose values mostly follow from other rows, and that no weight moves.
        """
        codes = measured.layout.cardinalities
        pairs = [c for c in measured.layout.cliques if len(c) == 2 and not set(c) & set(without)]
        return cls({(a, b): np.zeros((codes[a], codes[b]), np.float32) for a, b in pairs})

    def upon(self, column: int) -> dict[int, np.ndarray]:
        """Return what moves a column's codes, by the column that does."""
        return {first: cells for (first, second), cells in self.cells.items() if second == column}

    def move(self, drawn: Histories, measured: Marginals) -> None:
        """Move the weights by what drawn rows miss of the measured pairs.

        Args:
            drawn: rows that were drawn with these weights.
            measured: noisy counts of the pairs, and of others.
        """
        if not len(drawn.codes):
            return
        noise, drawn_rows = measured.scale / measured.rows, drawn.weights.sum() ** 2 / (drawn.weights**2).sum()
        for clique, counts in measured.layout.blocks(measured.counts):
            if (cells := self.cells.get(clique)) is not None:
                first, second = drawn.codes[:, list(clique)].T
                rows = np.bincount(first * cells.shape[1] + second, drawn.weights, minlength=cells.size)
                share, found = counts.reshape(cells.shape) / measured.rows, rows.reshape(cells.shape) / rows.sum()
                moves = _moves(found, share, noise**2 + found / drawn_rows)
                moved = cells + RATE / len(self.upon(clique[1])) * moves
                self.cells[clique] = (moved - _mean(moved, share)).astype(np.float32)

    def save(self, path: Path) -> Path:
        """Write the weights as one safetensors file; they follow from what is released."""
        from safetensors.numpy import save_file

        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({f"{first},{second}": cells for (first, second), cells in self.cells.items()}, path)
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read back what `save` wrote; none, if there is no such file, as beside what an earlier version released."""
        from safetensors.numpy import load_file

        saved: Mapping[str, np.ndarray] = load_file(path) if path.exists() else {}
        return cls({_clique(name): cells for name, cells in saved.items()})


def _clique(name: str) -> Clique:
    first, second = name.split(",")
    return int(first), int(second)


def _mean(weights: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the logarithm of what the weights of each first code are in the mean of all rows, (codes, 1).

    Without it, they say by how much each second code is likelier beside the first one than elsewhere.
    """
    second = np.maximum(share.sum(0), np.finfo(float).tiny)
    return np.log(np.exp(weights) @ (second / second.sum()))[:, None]


def _moves(found: np.ndarray, share: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the likeliest moves of the weights of a pair, float64 (codes, codes).

    How frequent the first codes are is left to what moves them: drawn rows are taken to have them as often as was counted.

    Args:
        found: shares of drawn rows; share: those that were counted; variance: of how far each of these lies apart by chance.
    """
    tiny, variance = np.finfo(float).tiny, np.maximum(variance, LEAST)
    of_first = np.maximum(share.sum(1, keepdims=True), 0.0)
    held = found * (of_first / np.maximum(found.sum(1, keepdims=True), tiny))
    beyond = float(((share - held) ** 2 - variance).sum())
    best, moves = np.full(held.shape, -np.inf), np.zeros(held.shape)
    if beyond <= 0:
        return moves
    spread = beyond / max(float((held**2).sum()), tiny)
    for move in np.linspace(-MOST, MOST, TRIED):
        likely = -((share - held * np.exp(move)) ** 2) / variance - move**2 / spread
        moves, best = np.where(likely > best, move, moves), np.maximum(likely, best)
    return moves

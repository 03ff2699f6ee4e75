"""How words lean to the codes of a row: told by noisy counts, and raked upon drawn texts, which is free as all draws are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

DAMPED, PRIOR = 0.8, 15.0
"""How much of what is missing a round of raking makes up for, and draws that are added so that few tell little."""

LEAST = 0.1
"""Part of what is expected by chance that a count by column has at least."""


@dataclass(frozen=True)
class Leanings:
    """What is added to the logarithm of each word's probability, by the codes of some columns.

    Attributes:
        merged: of each column, its number, and the merged code of each of its codes.
        weights: of each column, what is added, float32 (merged codes, words).
        targets: what raking brings that to: shares of words by merged code, float32 (words, merged codes).
    """

    merged: tuple[tuple[int, tuple[int, ...]], ...] = ()
    weights: tuple[np.ndarray, ...] = ()
    targets: tuple[np.ndarray, ...] = ()

    @classmethod
    def of(
        cls,
        merged: Sequence[tuple[int, tuple[int, ...]]],
        shares: np.ndarray,
        by_column: Sequence[tuple[np.ndarray, np.ndarray | float]],
    ) -> Self:
        """Return leanings by noisy counts, before raking.

        Args:
            shares: of each word, (words,); none is 0.
            by_column: of each column, noisy counts (words, merged codes), and the deviation of noise, of all or of each word
                (words, 1).
        """
        targets = tuple(_target(shares, *counted).astype(np.float32) for counted in by_column)
        return cls(tuple(merged), tuple(np.log(t / shares[:, None]).T.astype(np.float32) for t in targets), targets)

    def upon(self, codes: np.ndarray) -> np.ndarray:
        """Return what is added for each row, float32 (rows, words).

        Args:
            codes: int (rows, modelled columns) of the table's codec.
        """
        total = np.zeros((len(codes), self.weights[0].shape[1] if self.weights else 0), dtype=np.float32)
        for (column, merged), weights in zip(self.merged, self.weights, strict=True):
            total += weights[np.array(merged)[codes[:, column]]]
        return total

    def nearer(self, codes: np.ndarray, drawn: Sequence[np.ndarray]) -> Self:
        """Return leanings one round nearer to the released shares, by what was drawn with these.

        Args:
            codes: of the rows that texts were drawn for.
            drawn: the words of each text, int64.
        """
        rows, words = np.repeat(np.arange(len(codes)), [len(n) for n in drawn]), np.concatenate([[], *drawn])
        found, damped = [], DAMPED / np.sqrt(max(len(self.weights), 1))
        for (column, merged), weights, target in zip(self.merged, self.weights, self.targets, strict=True):
            size, groups = target.shape
            held = np.array(merged)[codes[rows, column]]
            counts = np.bincount((words * groups + held).astype(np.int64), minlength=size * groups)
            counts = counts.reshape(size, groups).astype(np.float64)
            wanted = target * counts.sum(0)
            overall = np.log((wanted.sum(1) + PRIOR / 3) / (counts.sum(1) + PRIOR / 3))
            each = np.log((wanted + PRIOR) / (counts * np.exp(overall)[:, None] + PRIOR))
            moved = DAMPED / len(self.weights) * overall[:, None] + damped * each
            found.append((weights + moved.T).astype(np.float32))
        return replace(self, weights=tuple(found))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is kept of it as arrays, by name."""
        kept = {}
        for i, (weights, target) in enumerate(zip(self.weights, self.targets, strict=True)):
            kept |= {f"leaning{i}": np.ascontiguousarray(weights), f"target{i}": np.ascontiguousarray(target)}
        return kept

    @classmethod
    def from_arrays(cls, merged: Sequence[Sequence], arrays: Mapping[str, np.ndarray]) -> Self:
        """Read back what was kept."""
        each = range(len(merged))
        return cls(
            tuple((column, tuple(codes)) for column, codes in merged),
            tuple(arrays[f"leaning{i}"] for i in each),
            tuple(arrays[f"target{i}"] for i in each),
        )


def _target(shares: np.ndarray, cells: np.ndarray, noise: np.ndarray | float) -> np.ndarray:
    """Return the shares of words by code of a column: what was counted, drawn to chance where noise may explain it."""
    of_column = np.maximum(cells, 0).sum(0)
    expected = shares[:, None] * of_column
    beyond = cells - expected
    found = expected + beyond * beyond**2 / (beyond**2 + noise**2 + 1e-9)
    found = np.maximum(found, LEAST * expected + 1e-12)
    return found / found.sum(0)

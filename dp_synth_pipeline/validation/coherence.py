"""Coherence of sequences as mostlyai-qa (1.10) defines it, so that figures can be set side by side.

The mean of three agreements, each the mean over columns: of a row's value with the next one's, one step of each sequence;
of how many values a sequence has; and of how many sequences have each of the commonest values. A number line has ten parts
in the first, and thirty in the others. It draws the steps by chance; ours are drawn by a generator that is given.

Restricted: computed from real rows without noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.validation.accuracy import agreement, agreement_of, cells, steps
from dp_synth_pipeline.validation.related_frames import RelatedFrame

FINE, COMMONEST = 30, 9
"""Parts of a column for what sequences have in all; the values whose sequences are counted one by one."""


@dataclass(frozen=True)
class Coherence:
    """How well sequences hang together, 0 to 1, and what two fresh samples of one population would reach."""

    reached: float
    best: float


def coherence(
    real: RelatedFrame, synthetic: RelatedFrame, schema: TableSchema, rng: np.random.Generator
) -> Coherence | None:
    """Return the coherence of the learned columns; None if either table has no rows.

    Args:
        rng: draws the step of each sequence; protects nothing.
    """
    if not len(real.rows) or not len(synthetic.rows):
        return None
    drawn = _drawn_steps(real, rng), _drawn_steps(synthetic, rng)
    found = []
    for column in schema.learned:
        ours, theirs = pd.Series(real.rows[column.name]), pd.Series(synthetic.rows[column.name])
        fine = cells(column, ours, theirs, FINE)
        sequences = [_distinct(codes, frame, fine[2]) for codes, frame in ((fine[0], real), (fine[1], synthetic))]
        how_many, drawn_many = (np.bincount(_sequence_of(s, fine[2])).astype(float) for s in sequences)
        values = steps(how_many, drawn_many)
        found.append((_next(column, ours, theirs, drawn), agreement([values]), _having(sequences, fine[2])))
    means = np.mean(found, axis=0)  # (figures of coherence, reached and best)
    return Coherence(float(means[:, 0].mean()), float(means[:, 1].mean()))


def _drawn_steps(frame: RelatedFrame, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return one row of each sequence by chance, not the last one, and the next; -1 after the only row of a sequence."""
    assert frame.parent is not None
    _, first, size = np.unique(frame.parent, return_index=True, return_counts=True)
    row = first + ((size - 1) * rng.random(len(size))).astype(np.int64)
    return row, np.where(size > 1, row + 1, -1)


def _next(
    column: Column, real: pd.Series, synthetic: pd.Series, drawn: tuple[tuple[np.ndarray, np.ndarray], ...]
) -> tuple[float, float]:
    (row, following), (other, other_following) = drawn
    now = cells(column, real.iloc[row], synthetic.iloc[other])
    later = cells(column, _at(real, following), _at(synthetic, other_following))
    return agreement([now, later])


def _at(values: pd.Series, rows: np.ndarray) -> pd.Series:
    return values.reset_index(drop=True).reindex(np.where(rows < 0, len(values), rows))


def _distinct(codes: np.ndarray, frame: RelatedFrame, size: int) -> np.ndarray:
    """Return each value of each sequence once: the sequence's number times `size`, and the value's code."""
    assert frame.parent is not None
    _, sequence = np.unique(frame.parent, return_inverse=True)
    return np.unique(sequence * size + codes)


def _sequence_of(distinct: np.ndarray, size: int) -> np.ndarray:
    return distinct // size


def _having(sequences: list[np.ndarray], size: int) -> tuple[float, float]:
    """Return the agreement of how many sequences have each of the commonest values, and how many any other."""
    commonest = np.argsort(-np.bincount(sequences[0] % size, minlength=size), kind="stable")[:COMMONEST]
    place = np.full(size, len(commonest))
    place[commonest] = np.arange(len(commonest))
    counted: list[np.ndarray] = []
    for distinct in sequences:
        once = np.unique(_sequence_of(distinct, size) * (len(commonest) + 1) + place[distinct % size])
        counted.append(np.bincount(once % (len(commonest) + 1), minlength=len(commonest) + 1))
    return agreement_of(*counted)

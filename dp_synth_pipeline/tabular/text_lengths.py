"""The length of a text stands for it in the table's model: nulls and lengths are modelled with the rest of the row."""

from __future__ import annotations

import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.tabular.kinds.base import Column, lookup
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile

COMPOSED = 4
"""Characters that Unicode composes to one, at most."""


def cleaned(text: str, most: int) -> str:
    """Return a text with single blanks, in Unicode's composed form, cut to `most` characters.

    Example:
        >>> cleaned("  two\\n lines ", 80), cleaned("cut here", 5)
        ('two lines', 'cut h')
    """
    needed = " ".join(text.split())[: COMPOSED * most]  # a run of marks takes the square of its length to compose
    return unicodedata.normalize("NFC", needed)[:most].rstrip()


def name_of(column: Column) -> str:
    """Return the name of the column that is modelled in place of a text column."""
    return f"{column.name}: length"


def modelled(column: Column) -> Column:
    """Return the column of lengths, in characters, that is modelled in place of a text column."""
    return Column(name_of(column), lookup("integer"), "int64", nulls=column.nulls, lower=0, upper=column.max_length)


def of_texts(values: pa.Array, column: Column) -> pa.Array:
    """Return how many characters of each text are kept, int64; null where there is none."""
    most = column.max_length or 0
    texts = values.cast(pa.string()).to_pylist()
    return pa.array([None if t is None else _length(t, most) for t in texts], pa.int64())


def _length(text: str, most: int) -> int:
    """Return the length of a cleaned text; blanks that stand for a text that is not written yet count as they are."""
    return len(cleaned(text, most)) if text.strip(" ") else min(len(text), most)


def blanks(lengths: pa.Array) -> pa.Array:
    """Return as many blanks as each text is to be long; null where there is none."""
    counts = lengths.cast(pa.int64()).fill_null(0)
    found = pc.binary_repeat(pa.repeat(pa.scalar(" "), len(counts)), counts)  # type: ignore[attr-defined]
    return pc.if_else(lengths.is_null(), pa.scalar(None, pa.string()), found)  # type: ignore[attr-defined]


def drawn(rows: pa.Table | pa.RecordBatch, name: str) -> np.ndarray:
    """Return the lengths of texts that are blanks so far, int64 (rows,); 0 where there is none."""
    values = rows.column(name)
    return np.asarray(pc.utf8_length(values).fill_null(0)).astype(np.int64)  # type: ignore[attr-defined]


def released(column: Column, lengths: ColumnProfile) -> ColumnProfile:
    """Return what was released of a text column as a whole: how much of it is null."""
    return ColumnProfile(
        column.name, column.kind, (), (), null_rate=lengths.null_rate, declared=("max_length",), misfits=lengths.misfits
    )


def shares(lengths: ColumnProfile, most: int) -> np.ndarray:
    """Return the released share of texts by number of characters, float64 (most + 1,)."""
    found = np.zeros(most + 1)
    for value, weight in zip(lengths.points, lengths.weights, strict=True):
        found[min(max(int(value), 0), most)] += weight
    for (low, high), weight in zip(lengths.bins, lengths.bin_weights, strict=True):
        inside = np.arange(max(int(np.ceil(low)), 0), min(int(np.ceil(high)), most + 1))
        if len(inside):
            found[inside] += weight / len(inside)
    return found / max(found.sum(), 1e-12)

"""Rows of the caller's own against a released generator: nulls filled by it, and how likely it makes them.

The rows are read here and nowhere else, nothing is learnt from them, and what comes back goes to the caller alone. So it is
free, and no more private than the rows themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import constraints, offsets
from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.encoding.support import log_within
from dp_synth_pipeline.tabular.kinds.base import Codec, Column

if TYPE_CHECKING:
    from dp_synth_pipeline.synthesis.sampling import Drawer

UNKNOWN = -1
"""The code of a cell that nothing is known of."""


def completed(frame: pd.DataFrame, drawer: Drawer, rng: np.random.Generator) -> pd.DataFrame:
    """Return a copy of a frame with the nulls of its learned columns filled; see `SyntheticModel.complete`."""
    codec, learned = drawer.codec, drawer.codec.schema.learned
    if not isinstance(frame, pd.DataFrame):
        raise InvalidInput(f"complete: expected a pandas DataFrame, got {type(frame).__name__}; make one of it.")
    if not frame.columns.is_unique:
        raise InvalidInput("complete: two columns have one name; rename one of them.")
    empty = np.stack([_missing(frame, c) for c in learned], 1) if len(frame) else np.zeros((0, len(learned)), bool)
    result = frame.copy()
    rows = np.flatnonzero(empty.any(1))
    if not len(rows):
        return _with_all(result, drawer)
    some, empty = frame.iloc[rows], empty[rows]
    cells = pa.table({c.name: _known(some, c) for c in learned})
    coded = offsets.with_offsets(cells, codec.schema)
    own = zip(codec.modelled, codec.columns, strict=True)
    codes = np.stack([_evidence(coded[c.name].combine_chunks(), k) for c, k in own], 1)

    def draw(numbers: np.ndarray) -> pa.Table:
        given = codes[numbers]
        full = drawer.model.complete(given, drawer.never_null, forbidden=codec.forbidden, rng=rng)
        known = {n: cells[n].combine_chunks().take(pa.array(numbers)) for n in offsets.tied(codec.schema)}
        rows = codec.decode(np.where(given < 0, full, given), rng=rng, known=known)
        return pa.Table.from_batches([drawer.written(rows, rng)])

    drawn = _ruled(some, empty, draw, drawer, rng) if drawer.rules else draw(np.arange(len(some)))
    for number, column in enumerate(learned):
        holes = empty[:, number]
        if holes.any():
            values = drawn.column(column.name).combine_chunks().filter(pa.array(holes))
            result[column.name] = _filled(result, column, rows[holes], values)
    return _with_all(result, drawer)


def _ruled(
    frame: Any, empty: np.ndarray, draw: Callable[[np.ndarray], pa.Table], drawer: Drawer, rng: np.random.Generator
) -> pa.Table:
    """Return rows whose filled cells keep the declared rules; warn of those that cannot, given what is known of them."""
    schema = drawer.codec.schema
    numbers = {c.name: i for i, c in enumerate(schema.learned)}
    known = {c.name: _known(frame, c) for c in schema.published if c.name in _ruled_names(drawer) or c.name in numbers}
    nowhere = np.zeros(len(frame), dtype=bool)
    holes = {name: empty[:, numbers[name]] if name in numbers else nowhere for name in known}
    dependencies = [rule for rule in drawer.rules if isinstance(rule, constraints.Dependency)]
    pilot = drawer.pilot(rng) if dependencies else None
    rows, good = constraints.filled(
        pa.table(known),
        holes,
        draw,
        drawer.rules,
        mapped={rule: constraints.usual(rule, pilot) for rule in dependencies if pilot is not None},
        digits=constraints.digits(schema, drawer.profile),
    )
    if not good.all():
        warnings.warn(
            f"{(~good).sum():,} of the completed rows break a declared rule, since nothing was found that keeps it beside "
            f"what is known of them; check the known cells of the columns that rules speak of.",
            stacklevel=4,
        )
    return rows


def _ruled_names(drawer: Drawer) -> set[str]:
    return {name for rule in drawer.rules for name in rule.columns}


def _known(frame: Any, column: Column) -> pa.Array:
    """Return a column's cells in the model's type; if the frame lacks it, nulls, or what is written without learning."""
    if column.name in frame:
        return _arrow(frame[column.name], column)
    if column.kind.learned:
        return pa.nulls(len(frame), column.arrow_type)
    return column.kind.generated(column, 0, len(frame))


def log_likelihoods(frame: pd.DataFrame, drawer: Drawer) -> np.ndarray:
    """Return the log-likelihood of each row, float64 (rows,), in nats; see `SyntheticModel.log_likelihood`."""
    if not isinstance(frame, pd.DataFrame):
        raise InvalidInput(f"log_likelihood: expected a pandas DataFrame, got {type(frame).__name__}; make one of it.")
    codec, learned = drawer.codec, drawer.codec.schema.learned
    absent = [c.name for c in learned if c.name not in frame]
    if absent:
        raise InvalidInput(
            f"log_likelihood: the frame lacks {', '.join(absent)}; a row's likelihood needs all columns."
        )
    if not len(frame):
        return np.zeros(0)
    cells: Any = frame
    table = pa.table({c.name: _arrow(cells[c.name], c) for c in learned})
    coded = offsets.with_offsets(table, codec.schema)
    values = [coded[c.name].combine_chunks() for c in codec.modelled]
    codes = np.stack([k.encode(v) for k, v in zip(codec.columns, values, strict=True)], 1)
    within = [log_within(k, v, codes[:, i]) for i, (k, v) in enumerate(zip(codec.columns, values, strict=True))]
    possible = np.where(offsets.agree(table, codec.schema), 0.0, -np.inf)
    return drawer.model.log_likelihood(codes) + np.sum(within, axis=0) + possible


def _missing(frame: pd.DataFrame, column: Column) -> np.ndarray:
    return frame[column.name].isna().to_numpy() if column.name in frame else np.ones(len(frame), dtype=bool)


def _evidence(values: pa.Array, codec: Codec) -> np.ndarray:
    """Return what is known of each row's cell: its code, or `UNKNOWN` for a null and for a name that has no code."""
    codes = np.where(np.asarray(values.is_null()), UNKNOWN, codec.encode(values))
    if isinstance(codec, CategoricalCodec) and codec.other is None:
        codes = np.where(np.isneginf(log_within(codec, values, np.maximum(codes, 0))), UNKNOWN, codes)
    return codes


def _arrow(values: pd.Series, column: Column) -> pa.Array:
    """Return values as an array of the column's storage type.

    Raises:
        InvalidInput: if the column holds others, naming it.
    """
    try:
        found = pa.Array.from_pandas(values)
        if pa.types.is_dictionary(found.type):
            found = found.dictionary_decode()
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        wide = pa.types.is_large_string(found.type)
        return (found.cast(pa.string()) if wide else found).cast(column.arrow_type, safe=False)
    except (pa.ArrowException, TypeError, ValueError):
        raise InvalidInput(
            f"column {column.name!r} holds values that are no {column.kind} of type {column.storage}; convert it as the "
            f"model's schema says."
        ) from None


def _filled(frame: Any, column: Column, holes: np.ndarray, values: pa.Array) -> pd.Series:
    """Return a column with its holes filled, in the type that it had; what was there is not touched.

    Holes are given by their row numbers, and `values` are theirs, in this order.
    A categorical type is given the categories that it lacks. A column that the frame lacks is made, in the model's type.
    """
    if column.name not in frame:
        return pd.Series(values.to_pandas().to_numpy(), index=frame.index)
    series = frame[column.name].copy()
    drawn = pd.Series(values.to_pandas())
    if isinstance(series.dtype, pd.CategoricalDtype):
        known = set(series.cat.categories)
        series = series.cat.add_categories([v for v in drawn.dropna().unique() if v not in known])
    try:
        series.iloc[holes] = drawn.astype(series.dtype).array
    except (TypeError, ValueError):
        raise InvalidInput(
            f"complete: column {column.name!r} has type {series.dtype}, which does not hold what the model draws "
            f"({column.storage}); convert it first, as by astype."
        ) from None
    return series


def _with_all(frame: pd.DataFrame, drawer: Drawer) -> pd.DataFrame:
    """Return the frame with the columns that the model writes without having learned them, if it lacks them."""
    for column in drawer.codec.schema.published:
        if column.name not in frame and not column.kind.learned:
            frame[column.name] = column.kind.generated(column, 0, len(frame)).to_pandas().to_numpy()
    return frame

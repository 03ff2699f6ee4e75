"""What a code stands for: the values that may come of it, and how likely each of them is. Released facts alone, so free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.kinds.base import Codec
from dp_synth_pipeline.tabular.profiling import grid

EACH = 64
"""Values of a bin up to which all of them are named; of a wider one, its ends and `SOME` between."""

SOME = 8


@dataclass(frozen=True)
class Support:
    """Values of a column and the code that each comes from.

    Attributes:
        values: in the column's storage type.
        codes: int64, one for each value.
        whole: for each code, whether its values are all there; else the least and the largest are.
    """

    values: pa.Array
    codes: np.ndarray
    whole: np.ndarray


def support(codec: Codec) -> Support:
    """Return what the codes of a column stand for; a code that is never written, as of suppressed categories, for none."""
    return _of_axis(codec) if isinstance(codec, AxisCodec) else _of_names(codec)


def released_values(codec: Codec, most: int = 12) -> str:
    """Say which values a column may have, for a person."""
    column, kind = codec.column, codec.column.kind  # type: ignore[attr-defined]
    found = support(codec)
    valued = found.values.drop_null()
    if not len(valued):
        return f"of {column.name!r} no value was released, so it is always null"
    if not kind.numeric:
        names = list(dict.fromkeys(str(v) for v in valued.cast(pa.string()).to_pylist()))
        more = f" and {len(names) - most} more" if len(names) > most else ""
        return f"{column.name!r} has the released values {', '.join(names[:most])}{more}"
    x, _ = kind.to_axis(valued)
    return f"{column.name!r} lies from {kind.shown(x.min())} to {kind.shown(x.max())}"


def log_within(codec: Codec, values: pa.Array, codes: np.ndarray) -> np.ndarray:
    """Return the log-probability of each value given its code, float64 (rows,); -inf for one that is never drawn.

    Of a number without a smallest step it is the log-density, per unit of the number line, unless the value has a weight of
    its own.
    """
    if isinstance(codec, AxisCodec):
        return _within_axis(codec, values, codes)
    return _within_names(codec, values, codes)


def _of_names(codec: Codec) -> Support:
    assert isinstance(codec, CategoricalCodec)
    names, codes = list(codec.values), list(np.repeat(np.arange(len(codec.starts)), _sizes(codec.starts, codec.values)))
    if codec.other is not None and codec.label is not None:
        names, codes = [*names, codec.label], [*codes, codec.other]
    elif codec.other is not None and not len(codec.starts):  # no name was released: it decodes to null
        names, codes = [*names, None], [*codes, codec.other]
    if codec.null is not None:
        names, codes = [*names, None], [*codes, codec.null]
    kind = pa.bool_() if codec.column.arrow_type == pa.bool_() and codec.column.kind.name_type == pa.bool_() else None
    values = pa.array(names, kind or (pa.string() if names else pa.null())).cast(codec.column.arrow_type)
    return Support(values, np.array(codes, dtype=np.int64), np.ones(codec.cardinality, dtype=bool))


def _of_axis(codec: AxisCodec) -> Support:
    """Decode every code at the ends of each of its members and between them."""
    heavy, groups = np.arange(len(codec.heavy)), len(codec.starts)
    codes, places, whole = [heavy], [np.zeros(len(heavy))], np.ones(codec.cardinality, dtype=bool)
    for group, size in enumerate(_sizes(codec.starts, codec.mass)):
        first = codec.starts[group]
        members = slice(first, first + size)
        counts = _counts(codec, members)
        whole[len(heavy) + group] = (counts <= EACH).all()
        upto = np.append(0.0, np.cumsum(codec.mass[members]))
        for start, mass, count in zip(upto, codec.mass[members], counts, strict=False):
            if mass > 0:
                within = (np.arange(count) + 0.5) / count if count <= EACH else np.append(np.arange(SOME) / SOME, 1)
                place = start + mass * np.clip(within, 1e-9, 1 - 1e-9)
                places.append(place / upto[-1])
                codes.append(np.full(len(place), len(heavy) + group))
    if codec.null is not None:
        codes, places = [*codes, np.array([codec.null])], [*places, np.zeros(1)]
    assert groups == len(codec.starts)
    flat = np.concatenate(codes).astype(np.int64)
    within = np.minimum(np.concatenate(places), np.nextafter(1.0, 0.0))
    values = codec.decode(flat, np.random.default_rng(), within, spread=False)
    return Support(values, flat, whole)


def _counts(codec: AxisCodec, members: slice) -> np.ndarray:
    """Return how many values each member has, int64; one more than `EACH` for a continuum and for many."""
    low, high = codec.low[members], codec.high[members]
    if codec.step == 0:
        return np.where(low == high, 1, EACH + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        count = np.maximum((high - low) / codec.step + 1, 1)
    return np.where(low == high, 1, np.minimum(np.nan_to_num(np.ceil(count), nan=EACH + 1), EACH + 1)).astype(np.int64)


def _within_axis(codec: AxisCodec, values: pa.Array, codes: np.ndarray) -> np.ndarray:
    x, null = codec.points(values)
    found = np.where(null, 0.0 if codec.null is not None else -np.inf, -np.inf)
    own = ~null & (codes < len(codec.heavy))
    found[own] = np.where(codec.heavy[codes[own]] == x[own], 0.0, -np.inf)
    grouped = np.flatnonzero(~null & (codes >= len(codec.heavy)) & (codes < len(codec.heavy) + len(codec.starts)))
    if not len(grouped):
        return found
    x, group = x[grouped], codes[grouped] - len(codec.heavy)
    member = np.clip(np.searchsorted(codec.low - codec.slack, x, side="right") - 1, 0, len(codec.low) - 1)
    low, high, slack = codec.low[member], codec.high[member], codec.slack[member]
    end = high - np.where(np.isin(high, codec.finer), 0.0, slack)
    inside = (x >= low - slack) & np.where(low == high, np.abs(x - low) <= slack, x < end)
    ends = np.append(codec.starts[1:], len(codec.mass))
    inside &= (member >= codec.starts[group]) & (member < ends[group])
    total = np.add.reduceat(codec.mass, codec.starts)[group]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(low == high, 1.0, high - low)
        if codec.step > 0:
            many = np.maximum(grid.first_multiple(high, codec.step) - grid.first_multiple(low, codec.step), 1)
            spread = np.where(low == high, 1.0, many)
        logs = np.log(codec.mass[member]) - np.log(total) - np.log(spread)
    found[grouped] = np.where(inside, logs, -np.inf)
    return found


def _within_names(codec: Codec, values: pa.Array, codes: np.ndarray) -> np.ndarray:
    assert isinstance(codec, CategoricalCodec)
    null = np.asarray(values.is_null())
    text = values if pa.types.is_boolean(values.type) else pc.cast(values, pa.string())
    index = np.asarray(pc.index_in(text, value_set=codec._names()).fill_null(-1)).astype(np.int64)  # type: ignore[attr-defined]
    unnamed = not codec.values and codec.label is None  # no name was released, so that all is drawn as null
    nullable = codec.null is not None or unnamed
    found = np.where(null, 0.0 if nullable else -np.inf, -np.inf)
    named = index >= 0
    if named.any():
        weights = codec.weights + 1e-12
        runs = np.add.reduceat(weights, codec.starts)
        found[named] = np.log(weights[index[named]]) - np.log(runs[codes[named]])
    if codec.other is not None and codec.label is not None:
        labelled = np.asarray(pc.fill_null(pc.equal(text, codec.label), False)) & ~named  # type: ignore[attr-defined]
        found[labelled] = 0.0
    return found


def _sizes(starts: np.ndarray, parts: list | np.ndarray) -> np.ndarray:
    return np.diff(starts, append=len(parts)).astype(np.int64)

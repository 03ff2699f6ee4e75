"""Categories and booleans: one code per named value, the rarest merged, unnamed values and nulls apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.tabular.profile import ColumnProfile
from dp_synth_pipeline.tabular.schema import Column, Kind

MAX_CODES = 64
"""Named values with a code of their own; rarer ones share one code and are drawn by their released weights."""


class CategoricalCodec:
    """Codes: 0..k-1 the likeliest values, then `rare`, then `other` (never generated), then null, each only if needed."""

    def __init__(self, column: Column, profile: ColumnProfile, *, keep_nulls: bool) -> None:
        self.column = column
        self.values = list(profile.values)
        self.own = len(self.values) if len(self.values) <= MAX_CODES else MAX_CODES - 1
        self.rare_weights = np.array(profile.weights[self.own :], dtype=float)
        n = self.own
        self.rare = n if len(self.values) > self.own else None
        n += self.rare is not None
        self.other = n if profile.other > 0 or n == 0 else None
        n += self.other is not None
        self.null = n if keep_nulls and profile.null_rate > 0 else None
        self.cardinality = n + (self.null is not None)
        self.marginal = np.zeros(self.cardinality)
        self.marginal[: self.own] = profile.weights[: self.own]
        for code, share in (
            (self.rare, self.rare_weights.sum()),
            (self.other, profile.other),
            (self.null, profile.null_rate),
        ):
            if code is not None:
                self.marginal[code] = share

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Codes that generation must not draw: unnamed values have no name to write."""
        return (self.other,) if self.other is not None and self.cardinality - (self.null is not None) > 1 else ()

    def encode(self, values: pa.Array) -> np.ndarray:
        """Return codes, int64 (rows,). A value without a code takes the last code it may: other, rare, or code 0."""
        text = values if pa.types.is_boolean(values.type) else pc.cast(values, pa.string())
        known = pa.array(self.values, type=pa.bool_() if self.column.kind is Kind.BOOLEAN else pa.string())
        found = pc.index_in(text, value_set=known)  # type: ignore[attr-defined]
        missing = self.other if self.other is not None else self.rare if self.rare is not None else 0
        codes = np.asarray(found.fill_null(-1)).astype(np.int64)
        if self.rare is not None:
            codes[codes >= self.own] = self.rare
        codes[codes < 0] = missing
        null = np.asarray(values.is_null())
        codes[null] = 0 if self.null is None else self.null
        return codes

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        """Return values of the column's storage type; the rare code is drawn by the released weights."""
        index = codes.astype(np.int64)
        if self.rare is not None:
            rare = index == self.rare
            weights = self.rare_weights + 1e-12
            index[rare] = self.own + rng.choice(len(weights), int(rare.sum()), p=weights / weights.sum())
        null = codes == (-1 if self.null is None else self.null)
        if self.other is not None:
            null |= codes == self.other
        names = pa.array(self.values, type=pa.bool_() if self.column.kind is Kind.BOOLEAN else pa.string())
        return names.take(pa.array(index, mask=null)).cast(self.column.arrow_type)

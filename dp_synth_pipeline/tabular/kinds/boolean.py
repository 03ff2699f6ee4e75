"""`boolean`: truth values, whose two names are public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.kinds.base import Column, Kind, spelled_truths

if TYPE_CHECKING:
    import pandas as pd


class Boolean(Kind):
    """Truth values, whose two names are public."""

    name = "boolean"
    names = ("true", "false")
    least_count = 2
    name_type = pa.bool_()
    sql = "BOOLEAN"
    csv_type = "BOOLEAN"
    csv_names = False
    codec = CategoricalCodec

    def recognises(self, arrow_type: pa.DataType) -> bool:
        """Whether values are stored as truth values."""
        return pa.types.is_boolean(arrow_type)

    def reads(self, arrow_type: pa.DataType) -> bool:
        """Whether values are stored as truth values."""
        return pa.types.is_boolean(arrow_type)

    def key(self, column: Column, name: str) -> str:
        """Write the SQL of a truth value's name."""
        return f"CASE WHEN {name} THEN 'true' ELSE 'false' END"

    def released(self, names: Sequence[str]) -> tuple[bool, ...]:
        """Return truth values by their names."""
        return tuple(name == "true" for name in names)

    def released_point(self, column: Column, value: Any) -> bool:
        """Return a truth value, however it was declared."""
        return str(value).lower() == "true"

    def spelled(self, values: pd.Series) -> pd.Series:
        """Return `true` and `false`, however pandas holds them."""
        return spelled_truths(values)

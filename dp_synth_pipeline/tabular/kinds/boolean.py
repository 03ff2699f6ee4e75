"""`boolean`: truth values, whose two names are public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.kinds.base import Column, Kind, spelled_truths

if TYPE_CHECKING:
    import pandas as pd


class Boolean(Kind):
    """Truth values, whose two names are public."""

    name = "boolean"
    stored_as = (pa.types.is_boolean,)
    names = ("true", "false")
    least_count = 2
    name_type = pa.bool_()
    sql = "BOOLEAN"
    codec = CategoricalCodec

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        return "BOOLEAN"

    def key(self, column: Column, name: str) -> str:
        return f"CASE WHEN {name} THEN 'true' ELSE 'false' END"

    def released(self, names: Sequence[str]) -> tuple[bool, ...]:
        return tuple(name == "true" for name in names)

    def released_point(self, column: Column, value: Any) -> bool:
        return str(value).lower() == "true"

    def spelled(self, values: pd.Series) -> pd.Series:
        return spelled_truths(values)

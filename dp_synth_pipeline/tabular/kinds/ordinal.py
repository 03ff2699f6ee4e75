"""`ordinal`: names with an order, which codes keep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.encoding.categorical import OrdinalCodec
from dp_synth_pipeline.tabular.kinds.base import Column, Kind
from dp_synth_pipeline.tabular.storage import is_text


class Ordinal(Kind):
    """Categories with an order; the rarest are merged with a neighbour."""

    name = "ordinal"
    read_from = (is_text, pa.types.is_integer)
    categorical = True
    ordered = True
    sql = "VARCHAR"
    codec = OrdinalCodec

    def check_declared(self, name: str, arrow_type: pa.DataType, facts: Mapping[str, Any]) -> None:
        if facts.get("categories") is None and not pa.types.is_integer(arrow_type):
            raise InvalidInput(
                f"column {name!r}: ordinal text needs its order, as in 'categories: [low, middle, high]'."
            )

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        whole = all(re.fullmatch("0|-?[1-9][0-9]*", str(v)) for v in facts.get("categories") or ())
        return "BIGINT" if whole else "VARCHAR"

    def order(self, column: Column, values: Sequence[Any], shares: Sequence[float] | np.ndarray) -> list[int]:
        return sorted(range(len(values)), key=lambda i: i if column.categories is not None else int(values[i]))

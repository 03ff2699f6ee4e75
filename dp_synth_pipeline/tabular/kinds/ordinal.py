"""`ordinal`: names with an order, which codes keep."""

from __future__ import annotations

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
    categorical = True
    ordered = True
    sql = "VARCHAR"
    codec = OrdinalCodec

    def reads(self, arrow_type: pa.DataType) -> bool:
        """Whether values are text or whole numbers."""
        return is_text(arrow_type) or pa.types.is_integer(arrow_type)

    def check_declared(self, name: str, arrow_type: pa.DataType, facts: Mapping[str, Any]) -> None:
        """Refuse text without its order; whole numbers have one already."""
        if facts.get("categories") is None and not pa.types.is_integer(arrow_type):
            raise InvalidInput(
                f"column {name!r}: ordinal text needs its order, as in 'categories: [low, middle, high]'."
            )

    def order(self, column: Column, values: Sequence[Any], shares: Sequence[float] | np.ndarray) -> list[int]:
        """Return the declared order, else that of the whole numbers."""
        return sorted(range(len(values)), key=lambda i: i if column.categories is not None else int(values[i]))

"""`category`: names without an order."""

from __future__ import annotations

import pyarrow as pa

from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.kinds.base import Kind
from dp_synth_pipeline.tabular.storage import is_length, is_text


class Category(Kind):
    """Names without an order."""

    name = "category"
    categorical = True
    sql = "VARCHAR"
    csv_type = "VARCHAR"
    codec = CategoricalCodec

    def recognises(self, arrow_type: pa.DataType) -> bool:
        """Whether values are text."""
        return is_text(arrow_type)

    def reads(self, arrow_type: pa.DataType) -> bool:
        """Whether values are anything but lengths of time."""
        return not is_length(arrow_type) and not pa.types.is_interval(arrow_type)

"""`category`: names without an order."""

from __future__ import annotations

import pyarrow as pa

from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.kinds.base import Kind
from dp_synth_pipeline.tabular.storage import is_real, is_text


class Category(Kind):
    """Names without an order."""

    name = "category"
    stored_as = (is_text,)
    read_from = (pa.types.is_boolean, pa.types.is_integer, is_real, pa.types.is_date, pa.types.is_timestamp)
    categorical = True
    sql = "VARCHAR"
    codec = CategoricalCodec

"""`excluded`: a column that is neither read nor published."""

from __future__ import annotations

import pyarrow as pa

from dp_synth_pipeline.tabular.kinds.base import Kind


class Excluded(Kind):
    """A column that is neither read nor published."""

    name = "excluded"
    learned = False
    published = False

    def reads(self, arrow_type: pa.DataType) -> bool:
        return True

    def storage(self, arrow_type: pa.DataType) -> str:
        return str(arrow_type)

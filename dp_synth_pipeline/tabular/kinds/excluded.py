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
        """Whether the type matters: no."""
        return True

    def storage(self, arrow_type: pa.DataType) -> str:
        """Name the source's type as it is."""
        return str(arrow_type)

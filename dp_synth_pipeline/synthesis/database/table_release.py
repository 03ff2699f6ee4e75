"""The release of one table of a database: a flat release that reads one row of each person, and learns from all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.relations.relating import RelatedRows


@dataclass(frozen=True)
class Given:
    """What the rows of a table are learnt from; restricted.

    Attributes:
        codes: what is given with each row, and then its own codes, int (rows, columns).
        units: number of the person of each row, ascending.
    """

    codes: np.ndarray
    units: np.ndarray


class TableRelease(Release):
    """One table on its way through the stages.

    Attributes:
        name: the table's name in its database.
        rows: all rows of the table, with their persons.
        given: what its rows are learnt from; None for the root, which is learnt as a table by itself.
    """

    name: str
    rows: RelatedRows
    given: Given | None = None

    def codes(self, codec: TableCodec) -> tuple[np.ndarray, np.ndarray | None]:
        """Return what is learnt from: of the root its own codes, of others what is given with each row as well."""
        return super().codes(codec) if self.given is None else (self.given.codes, self.given.units)

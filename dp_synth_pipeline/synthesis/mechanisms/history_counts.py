"""Counts the codes of all rows of a table below others, with noise: drawn histories are brought to these counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dp_synth_pipeline.model.histories import history_counts
from dp_synth_pipeline.model.histories.history_counts import HistoryCountsPlan
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import HISTORY_COUNTS

if TYPE_CHECKING:
    from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals


class HistoryCounts(Mechanism[HistoryCountsPlan, "Marginals"]):
    """Counts how many rows have each code of each column, and of some pairs; a person moves all by a bound together."""

    name = HISTORY_COUNTS

    def __init__(self, codes: np.ndarray, persons: np.ndarray, layout: Layout, bound: float) -> None:
        """Say what is counted.

        Args:
            codes: int (rows, columns); persons: number of the person of each row, int (rows,); both restricted.
            layout: which columns and pairs: a released fact, as is the bound.
            bound: the most by which a person may move all counts together, in rows (L2).
        """
        self._codes, self._persons, self._layout, self._bound = codes, persons, layout, bound

    def plan(self, release: Release) -> HistoryCountsPlan:
        return HistoryCountsPlan(
            release.allocation.history_counts(release.profile.population, release.spent), self._bound
        )

    def events(self, release: Release, plan: HistoryCountsPlan) -> Sequence[Event]:
        return (plan.event,)

    def run(self, release: Release, plan: HistoryCountsPlan, odometer: Odometer) -> Marginals:
        return history_counts.measure(self._codes, self._persons, self._layout, plan, odometer)

"""What measuring the texts of a table costs, fixed before the first of them is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_synth_pipeline.privacy.events import Event, Gaussian, Threshold
from dp_synth_pipeline.privacy.odometer import ROUNDING

WEIGHT = 1 << 10
"""L2 norm of what one row adds to a histogram of parts of its text, at most: whole numbers, so fine ones."""

THRESHOLDS = 3
"""Thresholded histograms of a column: of shapes, and two of words."""


@dataclass(frozen=True)
class TextPlan:
    """How much noise all histograms of all text columns may have together.

    Attributes:
        noise_multiplier: of the one Gaussian mechanism that they amount to. Each takes a part of its squared signal to
            noise; the parts may follow what was released before (Smith & Thakurta 2022).
        threshold_delta: chance, in all, that a word or a shape held by one unit alone is released; 0 where only what is on
            a public list is counted.
        columns: text columns, at least 1; each takes an equal part.
        max_rows: rows of one unit, bounded already.
    """

    noise_multiplier: float
    threshold_delta: float
    columns: int
    max_rows: int = 1

    @property
    def events(self) -> tuple[Event, ...]:
        """What all of it costs."""
        thresholds = (Threshold(self.threshold_delta),) if self.threshold_delta else ()
        return (Gaussian(self.noise_multiplier, 1), *thresholds)

    def scale(self, part: float) -> float:
        """Return the noise, in rows, of a histogram that takes `part` of a column's squared signal to noise.

        Args:
            part: above 0; all parts of a column add up to at most 1.
        """
        return (1 + ROUNDING) * self.noise_multiplier * self.max_rows * math.sqrt(self.columns / part)

    @property
    def delta(self) -> float:
        """The delta of each thresholded histogram."""
        return self.threshold_delta / (THRESHOLDS * self.columns) * (1 - ROUNDING)


ROUNDS = 4
"""Times that texts vote."""

EACH = 2
"""Votes that a candidate has on average, at least, in deviations of the noise on them."""

FEWEST, MOST = 20, 1_000
"""Candidates of a round; more would be work for a GPU, and a table of many thousands of rows could tell more apart."""


@dataclass(frozen=True)
class VotesPlan:
    """How much noise hides the votes of texts for candidates that a public model wrote.

    Attributes:
        noise_multiplier: of the histogram of one round, in units.
        rounds: histograms, one after the other; what is voted on follows what was released before.
        population: released number of units.
    """

    noise_multiplier: float
    rounds: int
    population: int

    @property
    def events(self) -> tuple[Event, ...]:
        """What all rounds cost."""
        return (Gaussian(self.noise_multiplier, self.rounds),)

    @property
    def candidates(self) -> int:
        """Candidates of a round: so few that most of them are told from noise."""
        return min(max(int(self.population / (EACH * max(self.noise_multiplier, 1.0))), FEWEST), MOST)

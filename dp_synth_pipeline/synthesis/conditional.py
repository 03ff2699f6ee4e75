"""Rows that satisfy a condition, drawn from released weights: free, since nothing but drawn rows is looked at.

The model draws among the codes that may satisfy the condition, weighted so that rows come as often as it has them. Codes are
decoded, and rows whose values do not satisfy it exactly are left out. This goes on until there are enough, or until so many
were drawn that there is no hope; then the rows that were found are repeated, and the effective number says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.base import GenerativeModel
from dp_synth_pipeline.synthesis.progress import unheard
from dp_synth_pipeline.tabular.condition import Condition
from dp_synth_pipeline.tabular.encoding.codec import TableCodec

CARE = 8
"""Effective draws for each row that is kept, where so many can be had: chosen among them, rows miss little by chance."""

FEWEST, CELLS = 1 << 11, 1 << 22
"""Draws that are made at a time, at least; and codes (draws x columns), at most."""

MOST, MOST_EACH, HOPELESS = 1 << 20, 64, 1 << 18
"""Draws in all, at most: so many, or so many for each row that is asked for, whichever is more; if none of the first fits,
fewer."""

MOST_KEPT = 1 << 16
"""Rows that are kept to be repeated, should the draws come to an end."""

PILOT = 1 << 13
"""Draws without a condition, to say which part of it is rarest."""


class Found(NamedTuple):
    """Drawn rows: their values, and their codes, int64 (rows, columns)."""

    rows: pa.Table
    codes: np.ndarray

    def filter(self, held: np.ndarray) -> Found:
        """Return those of a mask."""
        return Found(self.rows.filter(pa.array(held)), self.codes[held])

    def take(self, numbers: np.ndarray) -> Found:
        """Return those of some numbers, in that order."""
        return Found(self.rows.take(pa.array(numbers)), self.codes[numbers])

    def split(self, rows: int) -> tuple[Found, Found]:
        """Return the first rows, and the others."""
        return Found(self.rows.slice(0, rows), self.codes[:rows]), Found(self.rows.slice(rows), self.codes[rows:])

    def and_(self, more: Found) -> Found:
        """Return these and then others."""
        return Found(pa.concat_tables([self.rows, more.rows]), np.concatenate([self.codes, more.codes]))


class Pool:
    """Draws rows that satisfy a condition, as many as are asked for.

    Args:
        rows: how many will be asked for, about: more draws are made for more.
        rng: decides.
        report: is told how many were found so far.

    Attributes:
        condition: what they satisfy.
    """

    def __init__(
        self,
        model: GenerativeModel,
        codec: TableCodec,
        condition: Condition,
        rows: int,
        rng: np.random.Generator,
        report: Callable[[int], None] = unheard,
    ) -> None:
        self._model, self._codec, self.condition, self._rng = model, codec, condition, rng
        self._report, self._most, self._tried, self._found = report, max(MOST, MOST_EACH * rows), 0, 0
        self._drawn = 0
        none = np.zeros((0, len(codec.cardinalities)), np.int64)
        self._spare = self._kept = Found(codec.schema.arrow_schema().empty_table(), none)
        self._worth = 0.0

    @property
    def effective(self) -> int:
        """How many rows drawn one by one all rows so far are worth."""
        return math.floor(self._worth)

    def draw(self, rows: int) -> Found:
        """Return `rows` rows that satisfy the condition.

        Raises:
            InvalidInput: if none was found, naming the rarest part of the condition.
        """
        while len(self._spare.codes) < rows and self._tried < (self._most if self._found else HOPELESS):
            self._fetch(rows - len(self._spare.codes))
            self._report(self._found)
        if not self._found:
            raise InvalidInput(
                f"nothing fits: none of {self._tried:,} draws satisfied {self.condition.sql}; "
                f"{self.condition.rarest(self._pilot())}. Relax it, or leave a part of it out."
            )
        missing = rows - len(self._spare.codes)
        if missing > 0:
            again = np.resize(self._rng.permutation(len(self._kept.codes)), missing)
            self._spare = self._spare.and_(self._kept.take(again))
            self._worth = min(self._worth, self._found)
        taken, self._spare = self._spare.split(rows)
        return taken

    def _fetch(self, missing: int) -> None:
        left = (self._most if self._found else HOPELESS) - self._tried
        tries, most = FEWEST, max(min(CELLS // len(self._codec.cardinalities), left), FEWEST)
        if self._found:
            tries = int(np.clip(math.ceil(CARE * missing * self._tried / self._worth), FEWEST, most))
        elif self._tried:
            tries = most
        # What no code tells of is judged once rows are decoded: while none has held, more of the draws are.
        held_share = max(self._found, 0.5) / self._drawn if self._drawn else 1.0
        codes, effective = self._model.draw_given(
            math.ceil(missing / held_share),
            tries,
            self.condition.allowed,
            forbidden=self._codec.forbidden,
            rng=self._rng,
        )
        self._tried, self._drawn = self._tried + tries, self._drawn + len(codes)
        if not len(codes):
            return
        rows = pa.Table.from_batches([self._codec.decode(codes, rng=self._rng)])
        held = self.condition.holds(rows)
        found = Found(rows, codes).filter(held)
        self._found += len(found.codes)
        self._worth += effective * float(held.mean())
        self._spare = self._spare.and_(found)
        if len(self._kept.codes) < MOST_KEPT:
            self._kept = self._kept.and_(found)

    def _pilot(self) -> pa.Table:
        codes = self._model.sample(PILOT, forbidden=self._codec.forbidden, rng=self._rng)
        return pa.Table.from_batches([self._codec.decode(codes, rng=self._rng)])

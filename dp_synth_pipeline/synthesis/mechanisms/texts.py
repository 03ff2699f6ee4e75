"""Measures the text columns: shapes, words and their order, by noisy counts. Marginals and training share what is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.model.histories.context import merge
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release, TextRows
from dp_synth_pipeline.synthesis.release_plan import TEXT
from dp_synth_pipeline.tabular import text_lengths
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column
from dp_synth_pipeline.texts import fitting, measuring
from dp_synth_pipeline.texts.measuring import Rows
from dp_synth_pipeline.texts.plan import TextPlan
from dp_synth_pipeline.texts.writer import Writer

MERGED = 12
"""Codes of a column that words are counted by, at most: with more, each is learnt from few rows."""


class Texts(Mechanism[TextPlan, list[Writer]]):
    """Measures each text column by the codes of the columns that are none, and makes what writes it.

    Args:
        codecs: of the texts' own table, and of those that it hangs on.
    """

    name = TEXT

    def __init__(self, codecs: Sequence[TableCodec], profile: TableProfile) -> None:
        self._codecs, self._profile = codecs, profile

    @property
    def columns(self) -> list[Column]:
        """The text columns that no language model writes."""
        return [c for c in self._codecs[0].schema if c.kind.composed and c.model is None]

    def plan(self, release: Release) -> TextPlan | None:
        columns = len(self.columns)
        return release.allocation.texts(columns, self._profile.population, release.spent) if columns else None

    def events(self, release: Release, plan: TextPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: TextPlan, odometer: Odometer) -> list[Writer]:
        rows = release.text_rows([c.name for c in self.columns])
        return [self._writer(column, rows, plan, odometer) for column in self.columns]

    def _writer(self, column: Column, read: TextRows, plan: TextPlan, odometer: Odometer) -> Writer:
        """Return what writes one column; the rows are looked at here, and what is made of them after is released."""
        profile, most = self._profile[text_lengths.name_of(column)], column.max_length or 0
        cells, codes = read.cells[column.name].combine_chunks(), read.codes
        merged, shares = coded_beside(self._codecs)
        held = np.flatnonzero(~np.asarray(cells.is_null()))
        texts = [text_lengths.cleaned(text, most) for text in cells.take(pa.array(held)).cast(pa.string()).to_pylist()]
        by = [np.array(codes_of)[codes[held, number]] for number, codes_of in merged]
        stacked = np.stack(by, 1).astype(np.int64) if by else np.zeros((len(held), 0), np.int64)
        count = max(1, round(self._profile.rows * (1 - profile.null_rate)))
        rows = Rows(texts, stacked, shares, most, profile.mean or 1.0)
        return fitting.fit(
            measuring.measure(rows, plan, count, odometer),
            name=column.name,
            most=most,
            merged=merged,
            count=count,
            lengths=text_lengths.shares(profile, most),
            rng=np.random.default_rng(),
        )


def coded_beside(codecs: Sequence[TableCodec]) -> tuple[list[tuple[int, tuple[int, ...]]], list[np.ndarray]]:
    """Return, of each column that is no text, its number, the merged code of each code, and the released shares of these.

    Args:
        codecs: of the texts' own table, and of those that it hangs on.
    """
    texts = {text_lengths.name_of(c) for codec in codecs for c in codec.schema if c.kind.composed}
    coded_columns = [pair for codec in codecs for pair in zip(codec.modelled, codec.columns, strict=True)]
    merged, shares = [], []
    for number, (column, coded) in enumerate(coded_columns):
        if column.name in texts or coded.cardinality < 2:
            continue
        found = merge(coded.marginal, MERGED, column.kind.ordered)
        merged.append((number, found))
        shares.append(np.bincount(found, coded.marginal, minlength=max(found) + 1))
    return merged, shares

"""Counts the words of a column that a language model writes, by the rest of each row, so that its texts lean to these.

A word is a token of the public model, so all words are public, and none is named by a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.mechanisms.texts import coded_beside
from dp_synth_pipeline.synthesis.note_writer import NoteWriter, WordLeanings
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import NOTE_WORDS
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.texts import lengths, measuring, tokens
from dp_synth_pipeline.tabular.texts.measuring import Read, Rows
from dp_synth_pipeline.tabular.texts.plan import TextPlan


class NoteWords(Mechanism[TextPlan, WordLeanings]):
    """Counts words of one column, by the codes of the columns that are no texts.

    Args:
        writer: what is going to write the column; its model is loaded.
    """

    name = NOTE_WORDS

    def __init__(self, writer: NoteWriter, codec: TableCodec, profile: TableProfile) -> None:
        self._writer, self._codec, self._profile = writer, codec, profile

    def plan(self, release: Release) -> TextPlan | None:
        return release.allocation.note_words(self._profile.population, release.spent)

    def events(self, release: Release, plan: TextPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: TextPlan, odometer: Odometer) -> WordLeanings:
        merged, shares = coded_beside([self._codec])
        if not merged:  # then all rows are alike, whatever their first column says
            merged, shares = [(0, (0,) * self._codec.cardinalities[0])], [np.ones(1)]
        codes, model = release.codes(self._codec)[0], self._writer.model
        cells = pq.read_table(release.state.path("completed"), columns=[self._writer.name]).column(0).to_pylist()
        held = [row for row, cell in enumerate(cells) if cell is not None]
        words = [model.tokens(tokens.cleaned(str(cells[row]), self._writer.most)) for row in held]
        read = Read(
            model.network.vocabulary,
            np.array([word for own in words for word in own], np.int64),
            np.repeat(np.arange(len(held)), [len(own) for own in words]),
        )
        by = np.stack([np.array(merged_codes)[codes[held, number]] for number, merged_codes in merged], 1)
        typical = self._profile[lengths.name_of(self._codec.schema[self._writer.name])].mean or 1.0
        rows = Rows((), by.astype(np.int64), shares, model.written, typical)
        return WordLeanings.of(measuring.measure_words(rows, read, plan, odometer), merged)

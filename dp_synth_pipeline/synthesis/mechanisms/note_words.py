"""Counts the words of a column that a language model writes, by the rest of each row, so that its texts lean to these.

A word is a token of the public model, so all words are public, and none is named by a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.mechanisms.texts import coded_beside
from dp_synth_pipeline.synthesis.note_writer import NoteWriter, WordLeanings
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import NOTE_WORDS
from dp_synth_pipeline.tabular import text_lengths
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.texts import measuring
from dp_synth_pipeline.texts.measuring import Read, Rows
from dp_synth_pipeline.texts.plan import TextPlan


class NoteWords(Mechanism[TextPlan, WordLeanings]):
    """Counts words of one column, by the codes of the columns that are no texts.

    Args:
        writer: what is going to write the column; its model is loaded.
        codecs: of the texts' own table, and of those that it hangs on.
    """

    name = NOTE_WORDS

    def __init__(self, writer: NoteWriter, codecs: Sequence[TableCodec], profile: TableProfile) -> None:
        self._writer, self._codecs, self._profile = writer, codecs, profile

    def plan(self, release: Release) -> TextPlan | None:
        return release.allocation.note_words(self._profile.population, release.spent)

    def events(self, release: Release, plan: TextPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: TextPlan, odometer: Odometer) -> WordLeanings:
        own, (merged, shares) = self._codecs[0], coded_beside(self._codecs)
        if not merged:  # then all rows are alike, whatever their first column says
            merged, shares = [(0, (0,) * own.cardinalities[0])], [np.ones(1)]
        read_rows, model = release.text_rows([self._writer.name]), self._writer.model
        cells, codes = read_rows.cells.column(0).to_pylist(), read_rows.codes
        held = [row for row, cell in enumerate(cells) if cell is not None]
        words = [model.tokens(text_lengths.cleaned(str(cells[row]), self._writer.most)) for row in held]
        read = Read(
            model.network.vocabulary,
            np.array([word for own in words for word in own], np.int64),
            np.repeat(np.arange(len(held)), [len(own) for own in words]),
        )
        by = np.stack([np.array(merged_codes)[codes[held, number]] for number, merged_codes in merged], 1)
        typical = self._profile[text_lengths.name_of(own.schema[self._writer.name])].mean or 1.0
        rows = Rows((), by.astype(np.int64), shares, model.written, typical)
        return WordLeanings.of(measuring.measure_words(rows, read, plan, odometer), merged)

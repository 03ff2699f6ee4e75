"""Fine-tunes the language model of a text column by DP-SGD: one subsampled Gaussian mechanism of the release's one plan.

A training that was cut short is resumed from its last checkpoint, as that of the table is: hours of a GPU may lie in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

from dp_synth_pipeline.ledger import Entry, Ledger
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.work import Hooks
from dp_synth_pipeline.model.dpsgd.work import Training as Work
from dp_synth_pipeline.model.language.note_spec import NoteSpec
from dp_synth_pipeline.model.language.public_model import PublicModel
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.attempts import Attempts
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.note_writer import NoteWriter
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import NOTES
from dp_synth_pipeline.tabular import text_lengths
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column
from dp_synth_pipeline.texts.prompts import Prompts

CHECKPOINT = "notes_checkpoint"
"""The folder, beside the completed rows, from which a training that was cut short goes on."""

MOST_PROMPT = 256
"""Tokens of a prompt, at most."""


class Learnt(NamedTuple):
    """What a training of notes let out.

    Attributes:
        writer: what writes the column.
        audit: what training was seen to do; None for rows that a person declared public.
    """

    writer: NoteWriter
    audit: Audit | None


class Notes(Mechanism[TrainingPlan, Learnt]):
    """Fine-tunes one language model upon the rest of each row.

    Args:
        codecs: of the texts' own table, and of those that it hangs on.
    """

    name = NOTES

    def __init__(self, codecs: Sequence[TableCodec], profile: TableProfile) -> None:
        self._codecs, self._profile, self._spec = codecs, profile, NoteSpec()

    @property
    def column(self) -> Column | None:
        """The text column whose language model is fine-tuned; None if there is none."""
        return next((c for c in self._codecs[0].schema if c.model is not None and c.prompt is None), None)

    @cached_property
    def writer(self) -> NoteWriter | None:
        """What will write the column, whose model is loaded now; None if there is none.

        Raises:
            InvalidInput: if the model cannot be loaded; it is asked for before anything is charged.
        """
        return None if self.column is None else self._begun(self.column)

    def plan(self, release: Release) -> TrainingPlan | None:
        if self.writer is None:
            return None
        return release.allocation.notes(self._spec, self._profile.population, release.spent)

    def events(self, release: Release, plan: TrainingPlan) -> Sequence[Event]:
        return (plan.event,) if release.protection.guaranteed else ()

    def perform(self, release: Release) -> Learnt | None:
        """Charge what is left of the training, after what earlier attempts started, and go on from their checkpoint."""
        if self.writer is None or not release.protection.guaranteed:
            return super().perform(release)
        attempts = Attempts(release, NOTES)
        cut_short = attempts.take_over(self._profile.population)
        steps_done, plan, before = (0, self.plan(release), ()) if cut_short is None else cut_short
        assert plan is not None
        entry = attempts.charge(plan, steps_done)
        left = () if entry is None else entry.events
        release.state = release.state.having_run(NOTES, (*before, *left))
        return self._learnt(release, plan, release.protection.odometer(left), entry, steps_done)

    def run(self, release: Release, plan: TrainingPlan, odometer: Odometer) -> Learnt:
        return self._learnt(release, plan, odometer, None, 0)

    def _learnt(
        self, release: Release, plan: TrainingPlan, odometer: Odometer, entry: Entry | None, steps_done: int
    ) -> Learnt:
        writer = self.writer
        assert writer is not None
        rows = release.text_rows([writer.name])
        cells = rows.cells.column(0).to_pylist()
        texts = [None if cell is None else text_lengths.cleaned(str(cell), writer.most) for cell in cells]
        model, report, audit = writer.model, release.reporter(NOTES), None
        codes = model.encode(writer.prompts.say(rows.codes), texts)
        work = Work(codes, plan, self._spec, units=rows.units, resume_from=steps_done)
        if release.protection.guaranteed:
            work = replace(work, checkpoints=release.state.path("completed").with_name(CHECKPOINT))
            if steps_done < plan.steps:
                odometer.spend(replace(plan, steps=plan.steps - steps_done).event)
            ledger = release.protection.ledger
            mark = partial(_mark, ledger, entry, steps_done)
            audit = model.fit(work, Hooks(mark=mark, progress=report)).audit
        else:
            model.fit_public(work, Hooks(progress=report))
        writer.arrays = model.arrays()
        return Learnt(writer, audit)

    def _begun(self, column: Column) -> NoteWriter:
        """Return what will write the column, from public and released facts alone; its adapters add nothing yet."""
        from dp_synth_pipeline.model.language.note_model import NoteModel

        public, most = PublicModel.at(str(column.model)), column.max_length or 0
        prompts = Prompts.of(self._codecs, text_lengths.name_of(column))
        draft = NoteModel(public, self._spec.rank, MOST_PROMPT, most)
        prompt = min(MOST_PROMPT, draft.longest([prompts.longest()]) + len(prompts.names))
        found = NoteWriter(
            name=column.name,
            path=str(column.model),
            sha256=public.sha256(),
            rank=self._spec.rank,
            prompt=prompt,
            most=most,
            prompts=prompts,
        )
        found.begin(NoteModel(public, self._spec.rank, prompt, most))
        found.model.load()
        return found


def _mark(ledger: Ledger, entry: Entry | None, steps_done: int, steps: int) -> None:
    """Make it durable that so many steps of a training were started, of which earlier attempts started some."""
    if entry is not None:
        ledger.mark(entry.id, steps - steps_done)

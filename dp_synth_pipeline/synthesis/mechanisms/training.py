"""Trains from a start that costs nothing more, by DP-SGD with the least noise at which the whole release fits.

A training that was cut short is resumed from its last checkpoint: its steps so far are charged, and the rest is charged
anew, always with fresh noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.ledger import Entry, Ledger
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.plan import Look, LossQueriesPlan, TrainingPlan, learning_rate
from dp_synth_pipeline.model.dpsgd.work import Hooks
from dp_synth_pipeline.model.dpsgd.work import Training as Work
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.privacy.events import Event, SubsampledGaussian
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.synthesis import progress
from dp_synth_pipeline.synthesis.attempts import Attempts
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import LOSS_QUERIES, TRAINING
from dp_synth_pipeline.synthesis.retention import private
from dp_synth_pipeline.tabular.encoding.codec import TableCodec

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel

Report = Callable[..., None]


@dataclass
class Training(ABC):
    """Trains one model on one release's rows.

    Attributes:
        population: the released number of units.
        audit: what training was seen to do; None if it took no noisy step.
        ran: the events of the steps that ran, now and in the trainings that this one resumes.
    """

    release: Release
    codec: TableCodec
    spec: GeneratorSpec
    population: int
    audit: Audit | None = field(default=None, init=False)
    ran: list[TaggedEvent] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, release: Release, codec: TableCodec, spec: GeneratorSpec, population: int) -> Training:
        """Return the training of a release: by DP-SGD, unless its source was declared public."""
        training_class = PrivateTraining if release.protection.guaranteed else PublicTraining
        return training_class(release, codec, spec, population)

    @abstractmethod
    def train(self, model: GenerativeModel, report: Report | None = None) -> tuple[GenerativeModel, dict[str, Any]]:
        """Return the trained model, which may be the given one, changed; and the public facts of its training.

        Args:
            report: called with steps done and planned, and what was spent by then.
        """

    def _charge(self, mechanism: str, events: Sequence[Event], key: str | None = None) -> Entry | None:
        """Make it durable that a mechanism runs, before it reads; return its entry, if anybody pays."""
        release = self.release
        return release.protection.charge(release.id, mechanism, events, key, release.upon)


class PublicTraining(Training):
    """Trains on rows that a person declared public: without clipping, noise or charge."""

    def train(self, model: GenerativeModel, report: Report | None = None) -> tuple[GenerativeModel, dict[str, Any]]:
        plan, _ = self.release.allocation.training(self.spec, self.population, ())
        codes, units = self.release.codes(self.codec)
        work = Work(codes, plan, self.spec, units=units, workers=self.release.workers)
        model.fit_public(work, Hooks(progress=report) if report else Hooks())
        rate = learning_rate(plan, self.spec)
        return model, {"steps": plan.steps, "sample_rate": plan.sample_rate, "learning_rate": rate}


class PrivateTraining(Training):
    """Trains by DP-SGD; every step that reads rows is in the ledger before it does."""

    def train(self, model: GenerativeModel, report: Report | None = None) -> tuple[GenerativeModel, dict[str, Any]]:
        release = self.release
        attempts = Attempts(release, TRAINING)
        steps_done, plan, queries = self._plan(attempts)
        querying = None if queries is None else self._charge(LOSS_QUERIES, [queries.event])
        earlier_events = release.spent
        entry = attempts.charge(plan, steps_done)
        completed = release.state.path("completed")
        codes, units = release.codes(self.codec)
        delta, relation = release.delta, self._record.relation

        def epsilon(steps: int) -> float:
            own_events = [replace(plan, steps=steps - steps_done).event] if steps > steps_done else []
            return accountant.epsilon([*earlier_events, *own_events], delta, relation)

        with private():
            outcome = model.fit(
                Work(
                    codes,
                    plan,
                    self.spec,
                    units=units,
                    queries=queries,
                    resume_from=steps_done,
                    checkpoints=completed.with_name("checkpoint"),
                    workers=release.workers,
                ),
                self._hooks(entry, querying, steps_done, progress.with_epsilon(report, epsilon) if report else None),
            )
        self.audit = outcome.audit
        self._note(TRAINING, () if outcome.event is None else (outcome.event,))
        if outcome.stopped_at is not None:
            self._stopped_early(querying, entry)
        steps = steps_done + (outcome.event.steps if outcome.event else 0)
        return model, self._facts(plan, steps, outcome.looks)

    def _plan(self, attempts: Attempts) -> tuple[int, TrainingPlan, LossQueriesPlan | None]:
        """Return the steps that an earlier attempt started, the plan, and the queries of the loss that it may ask."""
        cut_short = attempts.take_over(self.population)
        if cut_short is None:
            return 0, *self.release.allocation.training(self.spec, self.population, self.release.spent)
        self._note(TRAINING, cut_short.events)
        return cut_short.steps_done, cut_short.plan, None

    def _hooks(
        self, entry: Entry | None, querying: Entry | None, steps_done: int, report: Callable[[int, int], None] | None
    ) -> Hooks:
        """Return what training calls before each chunk of steps and each query of the loss, so that both are durable."""
        marks = {
            "mark": lambda steps: entry and self._ledger.mark(entry.id, steps - steps_done),
            "mark_query": lambda count: self._mark_query(querying, count),
        }
        return Hooks(**marks, progress=report) if report else Hooks(**marks)

    @property
    def _ledger(self) -> Ledger:
        return self.release.protection.ledger

    @property
    def _record(self) -> Any:
        return self.release.record

    def _note(self, mechanism: str, events: Sequence[Event]) -> None:
        self.ran += [TaggedEvent(mechanism, event) for event in events]

    def _facts(self, plan: TrainingPlan, steps: int, looks: Sequence[Look]) -> dict[str, Any]:
        """Return what may be shown of a training: its plan, and the noisy losses that were charged as looks."""
        return {
            "noise_multiplier": plan.noise_multiplier,
            "sample_rate": plan.sample_rate,
            "steps": steps,
            "steps_planned": plan.steps,
            "max_grad_norm": self.spec.max_grad_norm,
            "learning_rate": learning_rate(plan, self.spec),
            **({"looks": [look._asdict() for look in looks]} if looks else {}),
        }

    def _stopped_early(self, *entries: Entry | None) -> None:
        """Charge only what ran, after a charged query of the loss ended training; the release promises what was planned."""
        why = {"who": f"run {self._record.run_id}", "why": "a charged look at the loss ended training early"}
        for entry in entries:
            if entry is not None:
                self._ledger.settle_at_mark(entry.id, **why)

    def _mark_query(self, querying: Entry | None, count: int) -> None:
        """Make it durable that so many queries were asked, the next one included, and note it."""
        if querying is not None:
            self._ledger.mark(querying.id, count)
            (event,) = querying.events
            assert isinstance(event, SubsampledGaussian)
            self._note(LOSS_QUERIES, [replace(event, steps=1)])

"""Trains several times with settings drawn at random, and releases the best: one mechanism, charged whole before it reads.

A trial draws its settings, trains from the common start, and asks once for the noisy loss of what it learnt. All trials are
independent runs of that one mechanism. How many of them compete is drawn from a Poisson distribution, and the one with the
lowest noisy loss is released with that loss and its settings. Theorem 6 of Papernot & Steinke 2022, "Hyperparameter Tuning
with Renyi Differential Privacy", bounds what that tells of a unit, as long as nothing else of a trial leaves: not how many
competed, nor what another one drew, reached or failed at. So nothing of a trial is logged, raised or kept. As many trainings
run as `StudyPlan.trainings` says, whatever was drawn, all with the same steps, so that progress and time are public too.

A study that was cut short is over, and charged whole: its trials were lost with the process, and a trial that ran again
would be one more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dp_synth_pipeline.errors import Diverged, ReleaseStateError
from dp_synth_pipeline.model.dpsgd.plan import Look, StudyPlan, learning_rate
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.work import Hooks
from dp_synth_pipeline.model.dpsgd.work import Training as Work
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.synthesis import idempotency
from dp_synth_pipeline.synthesis.mechanisms.training import Report, Training
from dp_synth_pipeline.synthesis.protection import OPEN
from dp_synth_pipeline.synthesis.release_plan import STUDY
from dp_synth_pipeline.synthesis.retention import private
from dp_synth_pipeline.synthesis.training_settings import TuneSettings

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel


class Trial(NamedTuple):
    """What one run of the mechanism returns; all of it is private unless it is the best that competed."""

    model: GenerativeModel
    work: Work
    look: Look
    audit: Audit


class Study(Training):
    """Trains several times by DP-SGD, and keeps the best by its noisy loss."""

    def train(self, model: GenerativeModel, report: Report | None = None) -> tuple[GenerativeModel, dict[str, Any]]:
        """Return the best model, and what may be told of it; the start, untrained, if none competed or each one diverged."""
        release, tune = self.release, self._settings()
        self._check_first()
        plan = release.allocation.study(self.spec, self.population, release.spent, tune.trials)
        self._charge(STUDY, [plan.event], idempotency.entry_key(release.attempt))
        codes, units = release.codes(self.codec)
        work = Work(codes, plan.training, self.spec, units=units, queries=plan.score, workers=release.workers)
        with private():
            best = _best(model, work, plan, tune, report)
        self.ran = [TaggedEvent(STUDY, plan.event)]
        if best is None:
            return model, _facts(plan, work)
        self.audit = best.audit
        return best.model, _facts(plan, best.work, best.look)

    def _settings(self) -> TuneSettings:
        tune = self.release.settings.training.tune
        assert tune is not None
        return tune

    def _check_first(self) -> None:
        """Refuse a study of a release that is over, or that began one before."""
        release = self.release
        earlier = [e for e in release.protection.entries(release.id) if e.mechanism == STUDY]
        idempotency.check_first_training(release.attempt, earlier)
        if earlier or release.record.state not in OPEN:
            raise ReleaseStateError(
                f"the study of release {release.id[:12]} was cut short or is over, and it is charged whole: its trials are "
                f"lost, and none may run again. Settle it, dp-synth ledger settle {release.id[:12]} --why REASON, and "
                f"materialize the table again from `ingested`: a new release is a new charge."
            )


def _best(
    start: GenerativeModel, work: Work, plan: StudyPlan, tune: TuneSettings, report: Report | None
) -> Trial | None:
    """Return the best of the trials that compete; None if none does, or each one diverged."""
    rng = np.random.default_rng()
    number = _drawn_number(rng, plan.trials)
    best: Trial | None = None
    for done in range(max(plan.trainings, number)):
        trial = _trial(start, work, work.spec.with_(**tune.drawn(rng)), _progress(report, done, plan))
        if done < number and trial is not None and (best is None or trial.look.loss < best.look.loss):
            best = trial
    return best


def _drawn_number(rng: np.random.Generator, trials: float) -> int:
    """Return how many trials compete: secret."""
    return int(rng.poisson(trials))


def _trial(
    start: GenerativeModel, work: Work, spec: TrainingSpec, progress: Callable[[int, int], None]
) -> Trial | None:
    """Train once from the start; None if that diverged, which is as private as its loss."""
    model, own_work = copy.deepcopy(start), replace(work, spec=spec)
    try:
        outcome = model.fit(own_work, Hooks(progress=progress))
    except Diverged:
        return None
    return Trial(model, own_work, outcome.looks[-1], outcome.audit)


def _progress(report: Report | None, trainings: int, plan: StudyPlan) -> Callable[[int, int], None]:
    """Return what tells how far all trainings are, of which so many were done before."""
    steps = plan.training.steps

    def reporting(done: int, of: int) -> None:
        if report is not None and trainings < plan.trainings:
            report(trainings * steps + done, plan.trainings * steps)

    return reporting


def _facts(plan: StudyPlan, work: Work, look: Look | None = None) -> dict[str, Any]:
    """Return what may be shown of a study: its plan, and of the trial that is released its settings and noisy loss."""
    facts = {
        "noise_multiplier": plan.training.noise_multiplier,
        "sample_rate": plan.training.sample_rate,
        "steps": plan.training.steps,
        "trials": plan.trials,
        "trainings": plan.trainings,
    }
    if look is None:
        return facts
    return facts | {
        "learning_rate": learning_rate(plan.training, work.spec),
        "max_grad_norm": work.spec.max_grad_norm,
        "averaging": work.spec.averaging,
        "loss": look.loss,
        "loss_deviation": look.deviation,
    }

"""A study releases the best of a secret number of trainings for one charge, and tells nothing of the others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import poisson

from dp_synth_pipeline.errors import Diverged, InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model.dpsgd.plan import StudyPlan, plan_study
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import REPLACE_ONE
from dp_synth_pipeline.privacy.events import SelectedTraining
from dp_synth_pipeline.privacy.filter import NANO
from dp_synth_pipeline.synthesis.mechanisms import study
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.synthesizer import Synthesizer, SyntheticModel
from tests.light import light  # noqa: F401
from tests.unit.ledger.stores import in_processes

pytestmark = pytest.mark.slow

ROWS = pd.DataFrame({"age": [20 + i % 50 for i in range(400)], "city": ["Rome", "Oslo", "Rome", "Bern"] * 100})
TUNE = {"trials": 1, "learning_rate": [0.003, 0.03], "averaging": [0.0, 0.5]}
SPEND = 4.0


class Desk:
    """A ledger with accounts of either rule, and a store."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger.open(str(folder / "ledger.db"))
        self.ledger.open_account("plan", epsilon=SPEND, delta=1e-4, rule="plan", why="a test")
        self.ledger.open_account("filter", epsilon=3 * SPEND, delta=1e-4)
        self.ledger.open_account("replaced", epsilon=3 * SPEND, delta=1e-4, relation=REPLACE_ONE)
        self.store = Store(folder / "store")

    def synthesizer(self, account: str = "plan", epsilon: float = SPEND, **tune: Any) -> Synthesizer:
        training = {"max_epochs": 1, "hidden": 8, "tune": TUNE | tune}
        where: dict[str, Any] = {"store": self.store, "show": False, "unit": "row", "table": "people"}
        return Synthesizer(account, epsilon, self.ledger, training=training, population=400, **where)

    def facts(self, model: SyntheticModel) -> dict[str, Any]:
        return model.drawer().facts


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def compete(patch: pytest.MonkeyPatch, number: int) -> None:
    patch.setattr(study, "_drawn_number", lambda rng, trials: number)


def judge(patch: pytest.MonkeyPatch, loss: Callable[[int], float | None]) -> list[study.Trial]:
    """Let the nth trial have a loss, or diverge if that is none; return the trials in their order."""
    honest, seen = study._trial, []

    def trial(*given: Any) -> study.Trial | None:
        found = loss(len(seen))
        seen.append(honest(*given))
        return None if found is None else seen[-1]._replace(look=seen[-1].look._replace(loss=found))

    patch.setattr(study, "_trial", trial)
    return seen


@pytest.mark.parametrize("account", ["plan", "filter"])
def test_a_study_is_one_entry_that_costs_what_its_event_does_and_the_card_says_it(desk: Desk, account: str) -> None:
    model = desk.synthesizer(account).fit(ROWS)
    (entry,) = (e for e in desk.ledger.entries(account) if e.mechanism == "study")
    (event,) = entry.events
    assert isinstance(event, SelectedTraining)
    facts = model.card().facts
    assert facts.epsilon is not None
    assert 0.9 * SPEND < facts.epsilon <= SPEND
    every = [e for one in desk.ledger.entries(account) for e in one.events]
    assert facts.epsilon == pytest.approx(accountant.epsilon(every, facts.delta or 0), rel=1e-6)
    if account == "filter":
        order = desk.ledger.account(account).order or 0
        assert entry.cost == pytest.approx(accountant.rdp(event, order) * NANO, abs=2)
    (told,) = (line for line in facts.limits if "secret number of trainings, 1 on average" in line)
    assert "learning_rate from 0.003 to 0.03, averaging from 0 to 0.5" in told
    assert len(model.sample(50)) == 50
    desk.ledger.verify()


@pytest.mark.parametrize("number", [0, 1, 3, 14])
def test_how_many_trials_compete_changes_neither_how_many_run_nor_what_is_reported(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    compete(monkeypatch, number)
    trials = judge(monkeypatch, float)
    reports: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "dp_synth_pipeline.synthesis.release.Release.reporter",
        lambda self, stage: lambda done, total, note="": reports.append((done, total)) if stage == "training" else None,
    )
    facts = desk.facts(desk.synthesizer().fit(ROWS))
    trainings = facts["trainings"]
    assert len(trials) == max(trainings, number)
    assert trainings == 9
    steps = facts["steps"]
    assert reports == [(at, 9 * steps) for i in range(9) for at in (i * steps, (i + 1) * steps)]
    assert ("loss" in facts) == (number > 0), "the first of them is the best here"


def test_the_best_of_those_that_compete_is_released_with_its_settings_and_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    compete(monkeypatch, 4)
    trials = judge(monkeypatch, lambda n: {0: 3.0, 1: None, 2: 1.5, 3: 2.0}.get(n, 0.1))
    model = desk.synthesizer().fit(ROWS)
    facts, best = desk.facts(model), trials[2]
    assert facts["loss"] == 1.5
    assert facts["learning_rate"] == best.work.spec.learning_rate
    assert facts["averaging"] == best.work.spec.averaging
    released = model.drawer().model
    assert released.description()["spec"]["learning_rate"] == facts["learning_rate"]
    for name, values in best.model.arrays().items():
        np.testing.assert_array_equal(released.arrays()[name], values)
    assert len({t.work.spec.learning_rate for t in trials}) == len(trials)
    assert all(0.003 <= (t.work.spec.learning_rate or 0) <= 0.03 for t in trials)


def test_a_trial_that_diverges_only_loses(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    compete(monkeypatch, 2)
    judge(monkeypatch, lambda n: None)
    model = desk.synthesizer().fit(ROWS)
    assert "loss" not in desk.facts(model)
    assert any("None of them is released: the network is untrained" in line for line in model.card().facts.limits)
    assert len(model.sample(20)) == 20


def test_what_a_training_raises_when_it_diverges_never_leaves(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(self: Any, work: Any, hooks: Any) -> Any:
        raise Diverged("a rate of 0.0123")

    monkeypatch.setattr("dp_synth_pipeline.model.autoregressive.generator.Generator.fit", fit)
    assert "0.0123" not in str(desk.facts(desk.synthesizer().fit(ROWS)))


def test_a_study_that_is_killed_is_charged_whole_and_none_of_it_runs_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies() -> None:
        judge(monkeypatch, lambda n: os.kill(os.getpid(), signal.SIGKILL) if n == 1 else 1.0)
        desk.synthesizer("filter").fit(ROWS)

    assert in_processes(1, dies) == [-signal.SIGKILL]
    (release,) = desk.ledger.releases("filter")
    (entry,) = (e for e in desk.ledger.entries("filter") if e.mechanism == "study")
    assert (release.state, entry.state) == ("started", "started")
    before = desk.ledger.entries("filter")
    with pytest.raises(ReleaseStateError, match=r"charged whole: its trials are\s+lost, and none may run again"):
        desk.synthesizer("filter").fit(ROWS, resume=release.id)
    assert desk.ledger.entries("filter") == before
    with pytest.raises(ReleaseStateError, match="charged in full"):
        desk.ledger.settle_at_mark(entry.id, why="it died", who="A. Officer")
    settled = desk.ledger.settle(release.id, why="it died", who="A. Officer")
    assert settled.charged_cost == sum(e.cost for e in before)
    assert entry.cost > 0
    assert desk.synthesizer("filter").fit(ROWS).card().facts.epsilon is not None


def test_an_account_of_another_relation_is_refused_before_a_row_is_read(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="this account's relation is replace-one"):
        desk.synthesizer("replaced").fit(ROWS)
    assert [r.state for r in desk.ledger.releases("replaced")] == ["voided"]
    assert not desk.ledger.entries("replaced")


def test_an_epsilon_that_pays_for_no_study_is_refused_before_a_row_is_read(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match=r"epsilon 0\.3 pays for no study of 20 trials"):
        desk.synthesizer("filter", 0.3, trials=20).fit(ROWS)
    assert [r.state for r in desk.ledger.releases("filter")] == ["voided"]
    balance = desk.ledger.balance("filter")
    assert (balance.cost_held, balance.epsilon_spent) == (0, 0.0)


@pytest.mark.parametrize(("trials", "trainings"), [(1, 9), (4, 17), (6, 21), (20, 45)])
def test_more_trainings_run_than_will_ever_count(trials: float, trainings: int) -> None:
    plan = plan_study(10_000, 1.0, TrainingSpec(), trials).with_noise(5.0)
    assert isinstance(plan, StudyPlan)
    assert plan.trainings == trainings
    rng = np.random.default_rng()
    assert poisson.sf(trainings, trials) <= 1e-6 < poisson.sf(trainings - 1, trials)
    drawn = [study._drawn_number(rng, trials) for _ in range(2_000)]
    assert np.mean(drawn) == pytest.approx(trials, abs=6 * (trials / 2_000) ** 0.5)  # by chance once in 1e8 runs
    assert np.var(drawn) == pytest.approx(trials, rel=0.4)

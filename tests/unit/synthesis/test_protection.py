"""Who pays for a release, and how what it may spend is divided: reserved budgets, and declared plans by their tags."""

from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, SubsampledGaussian, Threshold
from dp_synth_pipeline.synthesis.allocation import Calibrated, Declared
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import LOSS_QUERIES, PROFILE, ROW_COUNT, TRAINING
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store

QUERIES, STEPS = SubsampledGaussian(9.0, 0.5, 2), SubsampledGaussian(4.0, 0.1, 30)
EVENTS = (DiscreteLaplace(20.0), DiscreteGaussian(40.0), Threshold(1e-9), QUERIES, STEPS)
TAGS = (ROW_COUNT, PROFILE, PROFILE, LOSS_QUERIES, TRAINING)


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    opened = Ledger.open(str(tmp_path / "ledger.db"))
    opened.open_account("people", epsilon=20.0, delta=1e-5, why="test")
    return opened


def reserved(ledger: Ledger, folder, **changes) -> Release:
    settings = ReleaseSettings(**{"table": "t", "source": "t.csv", "account": "people", "epsilon": 1.0, **changes})
    return Release.reserve(settings, ledger, Store(folder / "store"), key="k", run_id="r")


def test_a_release_without_a_plan_is_calibrated_to_what_it_reserved(ledger, tmp_path):
    release = reserved(ledger, tmp_path)
    assert isinstance(release.allocation, Calibrated)
    assert release.record.epsilon == 1.0


def test_the_training_of_a_plan_is_the_one_that_is_tagged_so_though_queries_of_the_loss_come_first(ledger, tmp_path):
    ledger.declare_plan("people", name="weekly", events=EVENTS, mechanisms=TAGS, times=2, why="test", who="test")
    release = reserved(ledger, tmp_path, plan="weekly")
    assert isinstance(release.allocation, Declared)
    plan, _ = release.allocation.training(GeneratorSpec(), 1000, ())
    assert plan.event == STEPS


def test_a_use_of_a_plan_may_start_its_own_mechanisms_and_no_other(ledger, tmp_path):
    ledger.declare_plan("people", name="weekly", events=EVENTS, mechanisms=TAGS, times=2, why="test", who="test")
    release = reserved(ledger, tmp_path, plan="weekly")
    release.charge(TRAINING, [STEPS])
    with pytest.raises(BudgetExceeded, match="weekly"):
        release.charge("another trainer", [QUERIES])

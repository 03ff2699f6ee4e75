"""Who pays for a release, and how what it may spend is divided: reserved budgets, and declared plans by their tags."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger, rows
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.synthesis.allocation import Calibrated, Declared
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import LOSS_QUERIES, PROFILE, ROW_COUNT, TRAINING
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular import schema as schema_lib

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


FLAG = schema_lib.build({"flag": pa.bool_(), "word": pa.string()})


@pytest.mark.parametrize("tags", [TAGS, ()], ids=["named", "as before there were names"])
def test_the_profile_of_a_plan_for_discrete_noise_charges_what_was_declared(ledger, tmp_path, tags):
    events = (EVENTS[0], DiscreteGaussian(40.0, 1, 2), *EVENTS[2:3], STEPS)
    names = (ROW_COUNT, PROFILE, PROFILE, TRAINING) if tags else ()
    ledger.declare_plan("people", name="weekly", events=events, mechanisms=names, times=2, why="test", who="test")
    release = reserved(ledger, tmp_path, plan="weekly")
    plan = release.allocation.profile(FLAG)
    assert plan.histogram_events(FLAG) == events[1:3]
    odometer = release.charge(PROFILE, plan.histogram_events(FLAG))
    assert odometer.pays_in(DiscreteGaussian)
    ledger.verify()


def test_a_plan_divides_what_its_gaussian_events_amount_to_over_the_histograms_that_there_are(ledger, tmp_path):
    events, tags = (EVENTS[0], Gaussian(40.0), Threshold(1e-9), STEPS), (ROW_COUNT, PROFILE, PROFILE, TRAINING)
    ledger.declare_plan("people", name="weekly", events=events, mechanisms=tags, times=2, why="test", who="test")
    release = reserved(ledger, tmp_path, plan="weekly")
    plan = release.allocation.profile(FLAG)
    assert plan.scale == pytest.approx(40.0 * 2**0.5)
    assert not release.charge(PROFILE, plan.histogram_events(FLAG)).pays_in(DiscreteGaussian)


def test_a_plan_whose_gaussian_events_name_no_mechanism_has_no_profile(ledger, tmp_path):
    events = (EVENTS[0], Gaussian(40.0), Threshold(1e-9), STEPS)
    ledger.declare_plan("people", name="weekly", events=events, times=2, why="test", who="test")
    with pytest.raises(InvalidInput, match="mechanism=profile"):
        reserved(ledger, tmp_path, plan="weekly").allocation.profile(FLAG)


def settled(ledger: Ledger, key: str, table: str = "t", account: str = "people") -> str:
    """A settled release with a profile and a training; return its id."""
    asked = {"key": key, "table": table, "run_id": key, "code_version": "v", "own_delta": 2e-9}
    release = ledger.reserve(account, epsilon=3.0, delta=1e-5, **asked)
    for mechanism, events in ((ROW_COUNT, EVENTS[:1]), (PROFILE, EVENTS[1:3]), (TRAINING, [STEPS])):
        ledger.start(release.id, mechanism, events)
    return ledger.settle(release.id).id


def ids(ledger: Ledger, release: str, *mechanisms: str) -> set[str]:
    return {e.id for e in ledger.entries(release_id=release) if not mechanisms or e.mechanism in mechanisms}


def test_what_a_release_reads_of_earlier_ones_is_on_record_before_it_looks_at_rows(ledger, tmp_path):
    profiled, schema, start = settled(ledger, "1"), settled(ledger, "2", "t-schema"), settled(ledger, "3")
    release = reserved(ledger, tmp_path, inferred_by=schema)
    assert set(release.upon) == ids(ledger, schema)
    release.state = release.state.with_(profile_release=profiled)
    release.charge("marginals", [DiscreteGaussian(60.0)])
    release.state = release.state.with_(start_release=start)
    release.charge(TRAINING, [SubsampledGaussian(9.0, 0.1, 30)])
    marginals, training = ledger.entries(release_id=release.id)
    profile = ids(ledger, profiled, ROW_COUNT, PROFILE)
    assert set(marginals.upon) == profile | ids(ledger, schema)
    assert set(training.upon) == profile | ids(ledger, schema) | ids(ledger, start)
    assert len(release.lineage.earlier) == 8


def test_a_release_that_reads_nothing_of_earlier_ones_says_so(ledger, tmp_path):
    release = reserved(ledger, tmp_path)
    release.state = release.state.with_(profile_release=release.id)
    release.charge(TRAINING, [STEPS.with_noise(9.0)])
    assert [e.upon for e in ledger.entries(release_id=release.id)] == [()]


def test_a_schema_is_refused_whose_release_nobody_knows_or_that_protects_another_unit(ledger, tmp_path):
    ledger.open_account("persons", epsilon=20.0, delta=1e-5, unit="person")
    asked = {"key": "p", "table": "t", "run_id": "p", "code_version": "v", "unit": "person"}
    other = ledger.reserve("persons", epsilon=1.0, delta=1e-5, **asked)
    head = ledger.head()
    for wrong, why in (("0" * 32, "has no release"), (other.id, "another privacy unit")):
        with pytest.raises(InvalidInput, match=f"inferred_by: .*{why}"):
            reserved(ledger, tmp_path, inferred_by=wrong)
    assert ledger.head() == head


def test_a_release_of_which_nobody_recorded_what_it_builds_upon_is_no_start(ledger, tmp_path):
    known, unknown = settled(ledger, "1"), settled(ledger, "2")
    with ledger._store.write() as conn:
        for entry in ledger.entries(release_id=unknown):
            rows.put_entry(conn, replace(entry, upon=None))
    assert reserved(ledger, tmp_path).protection.paid_releases() == {known}


def test_a_warm_start_of_which_nobody_recorded_the_weights_counts_all_that_the_table_was_charged(ledger, tmp_path):
    earlier, _ = settled(ledger, "1"), settled(ledger, "2", "another")
    release = reserved(ledger, tmp_path, training={"start": "warm_start"})
    release.charge(TRAINING, [STEPS.with_noise(9.0)])
    assert release.upon == []
    with ledger._store.write() as conn:
        (own,) = rows.entries(conn, release_id=release.id)
        rows.put_entry(conn, replace(own, upon=None))
    assert set(release.upon) == ids(ledger, earlier)
    assert not release.lineage.recorded

"""A mechanism plans, charges, and only then looks at rows; a toy one is a file of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dp_synth_pipeline.errors import BudgetExceeded, NotCharged
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer, Unmetered
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store


class Toy(Mechanism[float, str]):
    """Notes what the ledger knew when it ran."""

    name = "toy"

    def __init__(self, noise: float | None) -> None:
        self.noise, self.seen = noise, None

    def plan(self, release: Release) -> float | None:
        return self.noise

    def events(self, release: Release, plan: float) -> Sequence[Event]:
        return (Gaussian(plan),)

    def run(self, release: Release, plan: float, odometer: Odometer) -> str:
        odometer.spend(Gaussian(plan))
        self.seen = [e.mechanism for e in release.protection.entries(release.id)]
        return "released"


@pytest.fixture
def release(tmp_path):
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account("people", epsilon=2.0, delta=1e-5, why="test")
    settings = ReleaseSettings(table="t", source="t.csv", account="people", epsilon=1.0)
    return Release.reserve(settings, ledger, Store(tmp_path / "store"), key="k", run_id="r")


def test_the_charge_is_durable_before_the_rows_are_looked_at(release):
    toy = Toy(20.0)
    assert toy.perform(release) == "released"
    assert toy.seen == ["toy"]
    assert [(ran.mechanism, ran.event) for ran in release.state.ran] == [("toy", Gaussian(20.0))]


def test_what_was_not_reserved_is_refused_and_nothing_is_looked_at(release):
    toy = Toy(0.1)
    with pytest.raises(BudgetExceeded):
        toy.perform(release)
    assert toy.seen is None
    assert release.state.ran == ()


def test_a_mechanism_gets_the_odometer_of_what_it_was_charged(release):
    class Greedy(Toy):
        def run(self, release: Release, plan: float, odometer: Odometer) -> str:
            odometer.spend(Gaussian(plan))
            odometer.spend(Gaussian(1e6 * plan))
            raise AssertionError("one release more than was charged went by")

    with pytest.raises(NotCharged):
        Greedy(20.0).perform(release)
    assert [e.mechanism for e in release.protection.entries(release.id)] == ["toy"], "what was charged stays charged"


def test_under_dp_every_odometer_has_a_limit(release):
    odometer = release.charge("toy", [Gaussian(20.0)])
    assert not isinstance(odometer, Unmetered)
    odometer.spend(Gaussian(20.0))
    assert odometer.used == (Gaussian(20.0),)
    with pytest.raises(NotCharged):
        odometer.spend(Gaussian(20.0))


def test_with_nothing_to_run_nothing_is_charged(release):
    toy = Toy(None)
    assert toy.perform(release) is None
    assert toy.seen is None
    assert release.protection.entries(release.id) == []


def test_a_release_settles_only_what_its_mechanisms_say_that_ran(release):
    Toy(20.0).perform(release)
    settled = release.protection.settle(release.id, delta=1e-5, ran=release.state.ran)
    assert settled.state == "settled"
    assert 0 < settled.final_epsilon < 1.0

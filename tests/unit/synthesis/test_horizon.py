"""What is left of an account is divided so that all refreshes fit, and the first one gets most of it."""

from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ask, Ledger
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis.allocation import THRESHOLD_SHARE
from dp_synth_pipeline.synthesis.expected_quality import Shape, remembered
from dp_synth_pipeline.synthesis.horizon import SHARES, best, divided

pytestmark = pytest.mark.slow

DELTA, OWN = 1e-5, 1e-5 * THRESHOLD_SHARE


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    found = Ledger.open(str(tmp_path / "ledger.db"))
    found.open_account("year", epsilon=6.0, delta=DELTA, why="test")
    found.open_account("declared", epsilon=6.0, delta=DELTA, rule="plan", why="test")
    return found


def all_fit(ledger: Ledger, *epsilons: float) -> bool:
    return all(ledger.foretold("year", [Ask(epsilon, DELTA, OWN) for epsilon in epsilons]))


def test_all_refreshes_fit_and_hardly_more_would(ledger):
    first, later = divided(ledger, "year", 52)
    assert all_fit(ledger, first, *[later] * 51)
    assert not all_fit(ledger, first, *[1.02 * later] * 51)
    alone = ledger.affordable("year", times=52)
    assert later < alone < first, "each by itself would have more than a later one, and less than the first"


def test_what_is_left_is_divided_and_not_what_there_was(ledger):
    whole, _ = divided(ledger, "year", 10)
    ledger.charge_by_hand("year", [Gaussian(1.5)], why="test", who="test")
    assert divided(ledger, "year", 10)[0] < whole


def test_more_for_the_first_leaves_less_for_the_others(ledger):
    little, much = divided(ledger, "year", 12, 0.3), divided(ledger, "year", 12, 0.8)
    assert little[0] < much[0]
    assert little[1] > much[1]


@pytest.mark.parametrize(
    ("account", "times", "why"), [("year", 1, "at least 2"), ("declared", 12, "declared beforehand")]
)
def test_what_cannot_be_divided_is_refused(ledger, account, times, why):
    with pytest.raises(InvalidInput, match=why):
        divided(ledger, account, times)


@pytest.mark.parametrize(("times", "drift"), [(52, 0.0), (52, 0.003), (52, 0.03)])
def test_no_other_split_is_nearer_to_the_table_on_average_over_all_refreshes(ledger, times, drift):
    def distance(split: tuple[float, float]) -> float:
        return sum(told.two_way for told in remembered(Shape(8000, 15), *split, times, DELTA, drift=drift))

    chosen = best(ledger, "year", times, Shape(8000, 15), drift)
    assert all_fit(ledger, chosen[0], *[chosen[1]] * (times - 1))
    others = [divided(ledger, "year", times, share) for share in SHARES]
    assert chosen in others
    assert distance(chosen) == min(map(distance, others))


def test_a_table_that_stays_leaves_most_to_the_first_release_and_one_that_moves_more_leaves_it_less(ledger):
    firsts = [best(ledger, "year", 52, Shape(8000, 15), drift)[0] for drift in (0.0, 0.003, 0.03)]
    assert firsts == sorted(firsts, reverse=True)
    assert firsts[0] == divided(ledger, "year", 52, SHARES[-1])[0]
    assert firsts[-1] < divided(ledger, "year", 52)[0]


def test_parts_that_leave_nothing_are_not_among_those_that_are_chosen_from(ledger):
    ledger.open_account("small", epsilon=0.02, delta=DELTA, why="test")
    times = 90
    with pytest.raises(InvalidInput, match="cannot pay"):
        divided(ledger, "small", times, SHARES[-1])
    first, later = best(ledger, "small", times, Shape(100_000, 15), 0.0)
    assert first > later > 0


@pytest.mark.parametrize("drift", [-0.1, 1.1, float("nan")])
def test_a_drift_is_a_distance(ledger, drift):
    with pytest.raises(InvalidInput, match="distance of pairs from 0 to 1"):
        best(ledger, "year", 52, Shape(8000, 15), drift)

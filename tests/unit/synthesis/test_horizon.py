"""What is left of an account is divided so that all refreshes fit, and the first one gets most of it."""

from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ask, Ledger
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis.allocation import THRESHOLD_SHARE
from dp_synth_pipeline.synthesis.horizon import divided

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

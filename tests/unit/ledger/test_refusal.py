from __future__ import annotations

import re

import pytest

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from tests.unit.ledger.stores import SMALL, ask


@pytest.mark.parametrize(("account", "rule"), [("f", "Rényi filter"), ("p", "declared plan")])
def test_a_refusal_says_asked_left_rule_what_fits_and_that_nothing_was_touched(
    ledger: Ledger, account: str, rule: str
) -> None:
    ask(ledger, account, "k", epsilon=1.5, delta=5e-6)
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, account, "l", epsilon=2.9, delta=5e-6)
    text = str(caught.value)
    for part in (f"{account!r}", "epsilon=2.9 at delta=5e-06", rule, "held by unfinished releases", "What fits now"):
        assert part in text
    assert 2 <= len(text.splitlines()) <= 4
    assert text.endswith("Nothing was read and nothing was changed.")


@pytest.mark.parametrize("account", ["f", "p"])
def test_what_a_refusal_says_would_fit_does_fit(ledger: Ledger, account: str) -> None:
    ask(ledger, account, "k", epsilon=1.5, delta=5e-6)
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, account, "l", epsilon=2.9, delta=5e-6)
    found = re.search(r"epsilon <= ([0-9.]+)", str(caught.value))
    assert found
    assert ask(ledger, account, "l", epsilon=float(found[1]), delta=5e-6).state == "reserved"


def test_preview_refuses_in_the_same_words_and_changes_nothing(ledger: Ledger) -> None:
    ask(ledger, "f", "k", epsilon=2.0)
    head = ledger.head()
    with pytest.raises(BudgetExceeded) as seen:
        ledger.preview("f", epsilon=2.5, delta=1e-6)
    with pytest.raises(BudgetExceeded) as met:
        ask(ledger, "f", "l", epsilon=2.5)
    assert str(seen.value) == str(met.value)
    assert ledger.preview("f", epsilon=0.5, delta=1e-6) is None
    assert ledger.head() == head


def test_a_delta_that_ran_short_is_named(ledger: Ledger) -> None:
    ask(ledger, "f", "k", delta=1e-5, own_delta=4e-7)
    with pytest.raises(BudgetExceeded, match="at most 1e-07 of threshold delta"):
        ask(ledger, "f", "l", own_delta=2e-7)
    ask(ledger, "p", "m", delta=1e-5)
    with pytest.raises(BudgetExceeded, match="No delta is left"):
        ask(ledger, "p", "n")


def test_a_spent_account_says_that_nothing_fits(ledger: Ledger) -> None:
    ask(ledger, "p", "k", epsilon=3.0)
    with pytest.raises(BudgetExceeded, match="Nothing fits any more"):
        ask(ledger, "p", "l")


def test_a_mechanism_over_its_reservation_is_told_to_begin_a_new_release(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    with pytest.raises(BudgetExceeded, match="materialize again from `ingested`") as caught:
        ledger.start(release.id, "training", [type(SMALL[0])(1.0)])
    assert str(caught.value).endswith("Nothing was read and nothing was changed.")

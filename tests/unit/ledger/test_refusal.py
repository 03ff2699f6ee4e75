from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from dp_synth_pipeline import cli
from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from tests.unit.ledger.stores import SMALL, ask


@pytest.mark.parametrize(("account", "rule"), [("f", "Rényi filter"), ("p", "declared plan")])
def test_a_refusal_says_asked_used_what_fits_and_that_nothing_was_touched_and_keeps_the_rule_for_who_looks_closer(
    ledger: Ledger, account: str, rule: str
) -> None:
    ask(ledger, account, "k", epsilon=1.5, delta=5e-6)
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, account, "l", epsilon=2.9, delta=5e-6, own_delta=1e-9)
    text, share = str(caught.value), ledger.share(account)
    asked = "epsilon=2.9 at delta=5e-06"
    for part in (f"{account!r}", asked, f"{share.percent} of the account is used", "unfinished", "What fits now"):
        assert part in text
    assert len(text.splitlines()) == 2
    assert text.endswith("Nothing was read and nothing was changed.")
    for jargon in ("Rényi", "units", "order", "threshold", "rule", "filter", "noise"):
        assert jargon not in text
    details, facts = caught.value.details, caught.value.facts
    for part in (rule, "held by unfinished releases", "1e-09 is for thresholds"):
        assert part in details
    assert (facts["account"], facts["used"], facts["asked"]["epsilon"]) == (account, share.used, 2.9)
    assert f"epsilon <= {facts['epsilon_that_fits']:g}" in text


def test_a_refusal_offers_to_give_back_a_release_only_if_there_is_one_that_never_started(ledger: Ledger) -> None:
    waiting = ask(ledger, "p", "k", epsilon=2.0)
    with pytest.raises(BudgetExceeded, match=f"dp-synth ledger void {waiting.id[:12]}"):
        ask(ledger, "p", "l", epsilon=2.0)
    ledger.start(waiting.id, "training", SMALL)
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, "p", "l", epsilon=2.0)
    assert "void" not in str(caught.value)


@pytest.mark.parametrize(
    "terms", [{}, {"unit": "who", "max_rows": 3}, {"relation": "replace-one"}, {"under": "all", "unit": "who"}], ids=str
)
def test_who_asks_a_fresh_account_for_its_whole_limit_is_told_the_command_that_opens_it_for_one_release(
    ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch, terms: dict[str, Any]
) -> None:
    monkeypatch.setenv("DP_SYNTH_LEDGER", url)
    ledger.open_account("all", epsilon=9.0, delta=1e-5, unit="who", umbrella=True, why="test")
    ledger.open_account("fresh", epsilon=3.0, delta=1e-5, why="test", **terms)
    opened = ledger.account("fresh")
    asked = {"epsilon": 3.0, "delta": 1e-5, "unit": opened.unit, "max_rows": opened.max_rows, "own_delta": 5e-9}
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, "fresh", "k", **asked)
    found = re.search(r"dp-synth ledger (open fresh .*--anew)\.", str(caught.value))
    assert found
    assert CliRunner().invoke(cli.application({"ledger"}), ["ledger", *found[1].split()]).exit_code == 0
    anew = ledger.account("fresh")
    assert replace(anew, rule=opened.rule, order=opened.order, opened_at=opened.opened_at) == replace(
        opened, cost_limit=anew.cost_limit, delta_limit=anew.delta_limit, who=anew.who, why=anew.why
    )
    assert ask(ledger, "fresh", "k", **asked).state == "reserved"


def test_the_whole_is_offered_only_while_nothing_was_charged_and_to_who_asks_for_no_more(ledger: Ledger) -> None:
    ledger.open_account("fresh", epsilon=3.0, delta=1e-5, why="test")
    ledger.open_account("bounded", epsilon=3.0, delta=1e-5, quotas=["requester=ana:0.5"], why="test")
    for account, epsilon in (("fresh", 3.01), ("bounded", 3.0)):
        with pytest.raises(BudgetExceeded) as caught:
            ask(ledger, account, "k", epsilon=epsilon, delta=1e-5)
        assert "--anew" not in str(caught.value)
    ask(ledger, "fresh", "k", epsilon=0.1, delta=1e-5)
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, "fresh", "l", epsilon=3.0, delta=1e-5)
    assert "--anew" not in str(caught.value)


def test_a_refusal_crosses_to_another_process_whole(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, "p", "l", epsilon=9.0)
    there = pickle.loads(pickle.dumps(caught.value))
    assert (str(there), there.details, there.facts) == (str(caught.value), caught.value.details, caught.value.facts)


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
    with pytest.raises(BudgetExceeded, match="What fits now: a delta of at most") as caught:
        ask(ledger, "f", "l", own_delta=2e-7)
    found = re.search(r"at most ([0-9.e-]+),", str(caught.value))
    assert found
    assert 4.9e-7 < float(found[1]) <= 5e-7
    assert ask(ledger, "f", "smaller", delta=float(found[1]), own_delta=0.2 * float(found[1])).state == "reserved"
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

"""The same request twice, a retry, a key used for something else."""

from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from tests.unit.ledger.stores import SMALL, ask, in_processes, sealed

pytest_plugins = ("tests.unit.ledger.stores",)


@pytest.mark.parametrize("account", ["f", "p"])
def test_the_same_key_is_one_release_and_one_charge(ledger: Ledger, account: str) -> None:
    first, before = ask(ledger, account, "run-1/adult"), sealed(ledger)
    assert ask(ledger, account, "run-1/adult", code_version="v2") == first
    assert sealed(ledger) == before


def test_the_same_key_from_many_processes_is_one_charge(ledger: Ledger) -> None:
    assert in_processes(4, lambda: ask(ledger, "p", "run-1/adult")) == [0] * 4
    assert ledger.balance("p").cost_held == 500_000_000


def test_a_retry_has_its_own_key_and_is_a_new_charge(ledger: Ledger) -> None:
    first, second = ask(ledger, "p", "run-1/adult"), ask(ledger, "p", "run-1/adult/retry-1")
    assert first.id != second.id
    assert ledger.balance("p").cost_held == 2 * first.reserved_cost


def test_a_key_is_still_answered_when_the_account_is_full(ledger: Ledger) -> None:
    first = ask(ledger, "p", "k", epsilon=3.0)
    assert ask(ledger, "p", "k", epsilon=3.0) == first
    with pytest.raises(BudgetExceeded):
        ask(ledger, "p", "l")


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 0.6},
        {"delta": 2e-6},
        {"own_delta": 1e-7},
        {"table": "census"},
        {"run_id": "run-2"},
        {"account": "p"},
    ],
)
def test_a_key_does_not_name_two_requests(ledger: Ledger, other: dict[str, object]) -> None:
    ask(ledger, "f", "k")
    before = sealed(ledger)
    with pytest.raises(InvalidInput, match=f"differs in.*{next(iter(other))}"):
        ask(ledger, **{"account": "f", "key": "k", **other})  # type: ignore[arg-type]
    assert sealed(ledger) == before


def test_the_key_of_a_release_that_is_over_gives_that_release_and_no_second_look(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    ledger.start(release.id, "training", SMALL)
    settled = ledger.settle(release.id)
    assert ask(ledger, "f", "k") == settled
    with pytest.raises(ReleaseStateError, match="new release is a new charge"):
        ledger.start(settled.id, "training", SMALL)


@pytest.mark.parametrize("field", ["key", "table", "run_id"])
def test_a_release_that_names_nothing_is_refused(ledger: Ledger, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        ask(ledger, **{"account": "f", "key": "k", field: ""})  # type: ignore[arg-type]

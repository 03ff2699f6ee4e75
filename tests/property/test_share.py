"""The used share of an account: nothing for a fresh one, never less after a charge, and whole exactly when nothing fits."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.ledger import Account, Plan, Share, decide, request
from dp_synth_pipeline.ledger.balance import share
from dp_synth_pipeline.ledger.costs import LEAST_EPSILON
from dp_synth_pipeline.ledger.rows import Tally
from dp_synth_pipeline.ledger.terms import AccountTerms
from dp_synth_pipeline.privacy.filter import ATTO

RULES = ("filter", "plan")


@cache
def account(rule: str, epsilon: float = 3.0) -> Account:
    return request.opened("a", AccountTerms(epsilon=epsilon, delta=1e-5, rule=rule))  # type: ignore[arg-type]


@cache
def least(opened: Account) -> tuple[int, int]:
    """What the least release takes: the least epsilon, and one unit of delta for thresholds."""
    if opened.order is None:
        return 1, 1
    return request.priced(opened, LEAST_EPSILON, opened.delta, 1 / ATTO, "row", 1)


def used(opened: Account, tally: Tally, *plans: Plan) -> Share:
    return share(decide.balance(opened, tally), plans)


def declared(opened: Account, cost: int, delta: int, times: int, taken: int) -> Plan:
    return Plan("id", "a", "weekly", (), times, taken, "share", 1.0, 1e-6, cost, delta, "add-remove", "", "", "")


@st.composite
def tallies(draw: st.DrawFn, opened: Account) -> Tally:
    """A balance within its limits, often one that is nearly exhausted."""

    def taken(limit: int, at_least: int) -> tuple[int, int]:
        total = draw(
            st.integers(0, limit) | st.sampled_from([limit, limit - at_least, limit - at_least + 1, limit - 1])
        )
        held = draw(st.integers(0, total))
        return total - held, held

    (cost, delta) = least(opened)
    return Tally(*taken(opened.cost_limit, cost), *taken(opened.delta_limit, delta))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 6.0])
def test_a_fresh_account_is_not_used_at_all(rule: str, epsilon: float) -> None:
    fresh = used(account(rule, epsilon), Tally())
    assert (fresh.used, fresh.percent, str(fresh)) == (0.0, "0 %", "0 % used; nothing was released yet")


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_the_whole_is_used_exactly_when_not_even_the_least_release_is_admitted(rule: str, data: st.DataObject) -> None:
    opened = account(rule)
    tally = data.draw(tallies(opened))
    figure = used(opened, tally)
    fits = decide.admits(opened, tally, *least(opened))
    assert (figure.used < 1) == fits
    assert (figure.percent == "100 %") == (not fits)


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_a_charge_never_lowers_the_share_and_a_share_is_never_less_than_any_of_its_parts(
    rule: str, data: st.DataObject
) -> None:
    opened = account(rule)
    before = data.draw(tallies(opened))
    cost_left, delta_left = before.left(opened)
    after = before.hold(data.draw(st.integers(0, cost_left)), data.draw(st.integers(0, delta_left)))
    assert used(opened, before).used <= used(opened, after).used <= 1
    part = Fraction(after.cost_spent + after.cost_held, opened.cost_limit)
    assert used(opened, after).used >= float(part) - 1e-15
    assert int(used(opened, after).percent.removeprefix("over ").removesuffix(" %")) >= (
        100 * part if part < 0.99 else 99
    )


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_a_declared_plan_is_used_use_by_use_and_the_rest_of_it_is_set_aside(rule: str, data: st.DataObject) -> None:
    opened = account(rule)
    cost = data.draw(st.integers(1, opened.cost_limit))
    delta = data.draw(st.integers(1, opened.delta_limit))
    times = data.draw(st.integers(1, 60))
    charged = Tally(cost, 0, delta, 0)
    shares = [used(opened, charged, declared(opened, cost, delta, times, taken)) for taken in range(times + 1)]
    assert shares[0].used == 0
    assert all(a.used <= b.used for a, b in pairwise(shares))
    assert all(s.used < 1 for s in shares[:-1])  # a use of the plan still fits
    assert shares[-1] == used(opened, charged)
    assert all(s.used + s.set_aside <= 1 + 1e-9 for s in shares)


def test_a_plan_that_is_the_whole_account_is_used_in_the_parts_it_was_declared_in() -> None:
    opened = account("plan")
    whole = Tally(opened.cost_limit, 0, opened.delta_limit, 0)
    third = used(opened, whole, declared(opened, opened.cost_limit, opened.delta_limit, 52, 13))
    assert third.used == 0.25
    assert third.set_aside == pytest.approx(0.75)
    assert str(third) == "25 % used, 75 % set aside for declared plans; no release of its own yet"

"""The admission rule against the numbers published for it, and against accountants written by others."""

from __future__ import annotations

from pathlib import Path

import pytest
from dp_accounting.rdp import rdp_privacy_accountant as google
from opacus.accountants.analysis.rdp import compute_rdp

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.ledger.costs import terms
from dp_synth_pipeline.privacy import accountant, filter
from dp_synth_pipeline.privacy.events import SubsampledGaussian

DELTA = 1e-5
RUN = SubsampledGaussian(2.0, 512 / 44_000, 860)
"""44,000 rows, batches of 512, ten epochs: epsilon 0.68."""


@pytest.mark.parametrize(("epsilon", "order", "limit"), [(3, 10, 2.082), (6, 5, 3.747), (10, 3.5, 6.232)])
def test_the_order_and_the_limit_are_the_reference_ones(epsilon: float, order: float, limit: float) -> None:
    fixed = terms("filter", epsilon, DELTA, own_delta_share=0.0)
    assert fixed.order == order
    assert fixed.cost_limit / filter.NANO == pytest.approx(limit, abs=5e-4)


@pytest.mark.parametrize(("epsilon", "order"), [(3, 10), (6, 5), (10, 3.5)])
def test_the_limit_is_the_conversion_of_canonne_kamath_and_steinke(epsilon: float, order: float) -> None:
    back, _ = google.compute_epsilon([order], [filter.limit(epsilon, DELTA, order)], DELTA)
    assert back == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "runs"), [(3, 12), (6, 44), (10, 107)])
def test_rule_f_admits_as_many_runs_as_published(epsilon: float, runs: int) -> None:
    fixed = terms("filter", epsilon, DELTA, own_delta_share=0.0)
    assert fixed.order is not None
    assert fixed.cost_limit // filter.charge_units(accountant.rdp(RUN, fixed.order)) == runs


@pytest.mark.parametrize(("epsilon", "runs"), [(3, 15), (6, 51), (10, 120)])
def test_a_declared_plan_admits_as_many_runs_as_published(epsilon: float, runs: int) -> None:
    assert accountant.epsilon(SubsampledGaussian(2.0, 512 / 44_000, 860 * runs), DELTA) <= epsilon
    assert accountant.epsilon(SubsampledGaussian(2.0, 512 / 44_000, 860 * (runs + 1)), DELTA) > epsilon


@pytest.mark.parametrize(
    ("epsilon", "runs"),
    [(3, 15), pytest.param(6, 51, marks=pytest.mark.slow), pytest.param(10, 120, marks=pytest.mark.slow)],
)
def test_the_ledger_takes_a_plan_of_as_many_runs_as_published_and_not_of_one_more(
    tmp_path: Path, epsilon: float, runs: int
) -> None:
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account("runs", epsilon=epsilon, delta=DELTA, rule="plan")
    word = {"why": "weekly", "who": "A. Officer"}
    with pytest.raises(BudgetExceeded, match=f"at most {runs} fit"):
        ledger.declare_plan("runs", name="weekly", events=[RUN], times=runs + 1, **word)
    ledger.declare_plan("runs", name="weekly", events=[RUN], times=runs, **word)
    names = {"table": "t", "run_id": "r", "code_version": "v", "plan": "weekly", "epsilon": 0.69, "delta": DELTA}
    for number in range(runs):
        release = ledger.reserve("runs", key=str(number), **names)  # type: ignore[arg-type]
        if number % 20 == 0:
            ledger.start(release.id, "training", [RUN])
    with pytest.raises(BudgetExceeded, match=f"{runs} times"):
        ledger.reserve("runs", key="more", **names)  # type: ignore[arg-type]


def test_the_ledger_admits_twelve_such_runs_one_after_the_other(tmp_path: Path) -> None:
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account("runs", epsilon=3.0, delta=DELTA, own_delta_share=0.0)
    admitted = 0

    def run_for_ever() -> None:
        nonlocal admitted
        while True:
            release = ledger.reserve(
                "runs", key=str(admitted), epsilon=0.69, delta=DELTA, table="t", run_id="r", code_version="v"
            )
            ledger.start(release.id, "training", [RUN])
            ledger.settle(release.id)
            admitted += 1

    with pytest.raises(BudgetExceeded):
        run_for_ever()
    assert admitted == 12


@pytest.mark.parametrize("order", [3.5, 5, 10, 64])
def test_renyi_costs_equal_those_of_opacus(order: float) -> None:
    theirs = compute_rdp(q=RUN.sample_rate, noise_multiplier=RUN.noise_multiplier, steps=RUN.steps, orders=[order])
    assert accountant.rdp(RUN, order) == pytest.approx(float(theirs[0]), rel=1e-6)

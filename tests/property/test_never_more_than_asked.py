"""A release never costs more than was asked: by its events' loss distributions, and by the exact law of its noise."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dp_synth_pipeline.model.marginals import measuring
from dp_synth_pipeline.model.marginals.plan import MarginalsPlan
from dp_synth_pipeline.privacy import accountant, mechanisms
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis import allocation
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular import schema as schema_lib

DELTA, ROWS = 1e-5, 5000
REACH = 400
"""Noise is looked at from minus to plus as many rows; beyond lies less than 1e-300 of it at the scales used here."""


def rounded(scale: float) -> np.ndarray:
    """P[round(N) = x] for a normal variate N of deviation `scale`, for x from -REACH to REACH."""
    x = np.abs(np.arange(-REACH, REACH + 1))
    mass = norm.sf((x - 0.5) / scale) - norm.sf((x + 0.5) / scale)
    mass[REACH] = 1 - 2 * norm.sf(0.5 / scale)
    return mass


def discrete(scale: float) -> np.ndarray:
    """The discrete Gaussian, which versions before drew."""
    x = np.arange(-REACH, REACH + 1).astype(float)
    mass = np.exp(-(x**2) / (2 * scale**2))
    return mass / mass.sum()


def exact_delta(noise: np.ndarray, epsilon: float, shift: tuple[int, ...] = (1,)) -> float:
    """Return the exact delta at `epsilon` of whole cells that a unit moves by `shift`, with independent `noise` on each."""
    there, back = np.ones(1), np.ones(1)
    for moved in shift:
        there = np.multiply.outer(there, noise[: len(noise) - moved] if moved else noise).ravel()
        back = np.multiply.outer(back, noise[moved:]).ravel()
    return float(np.maximum(there - math.exp(epsilon) * back, 0).sum())


def marginals_alone(epsilon: float, cards: tuple[int, ...]) -> MarginalsPlan:
    """Plan a release whose profile is reused, and which measures marginals and does not train."""
    spec = ReleaseSettings(
        table="t", source="t.csv", account="a", epsilon=epsilon, training={"method": "marginals"}
    ).training.spec()
    budget = allocation.RemainingBudget((), Budget(epsilon, DELTA))
    return allocation.marginals(budget, spec, cards, ROWS, ROWS, 1)


@pytest.mark.parametrize("epsilon", [0.7, 1.0, 1.2, 1.99, 2.0, 2.4, 3.0, 5.0])
def test_two_columns_with_a_reused_profile_cost_what_was_asked_by_the_exact_law_of_their_noise(epsilon: float) -> None:
    """With discrete Gaussian noise of the same scale, delta is 1.125e-5 at an epsilon of 1.99, where 1e-5 is claimed."""
    plan = marginals_alone(epsilon, (5, 5))
    assert (plan.pairs, plan.chosen) == (1, 1)
    assert exact_delta(rounded(plan.scale), epsilon) <= DELTA


def test_discrete_noise_of_the_same_scale_would_cost_more() -> None:
    assert exact_delta(discrete(marginals_alone(1.99, (5, 5)).scale), 1.99) == pytest.approx(1.125e-5, rel=1e-3)
    assert exact_delta(discrete(marginals_alone(1.2, (5, 5)).scale), 1.2) == pytest.approx(1.061e-5, rel=1e-3)


def test_the_noise_of_that_release_is_a_rounded_normal_variate_of_the_planned_scale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, asked = marginals_alone(1.99, (5, 5)), []
    monkeypatch.setattr(mechanisms, "rounded_gaussian", lambda *call: asked.append(call) or np.full(call[1], 7))
    shares = [np.full(5, 0.2)] * 2
    odometer = Odometer([plan.event])
    held = np.zeros((0, 2), np.int16)
    found = measuring.measure(held, shares, plan, rows=ROWS, odometer=odometer)
    assert asked == [(plan.scale, 25)]
    assert found.counts.tolist() == [7.0] * 25, "whatever is drawn is what is released"


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """Balle & Wang 2018, Theorem 8."""
    below, above = -epsilon * multiplier, 1 / (2 * multiplier)
    return float(norm.cdf(below + above) - math.exp(epsilon) * norm.cdf(below - above))


@pytest.mark.parametrize("shift", [(1,), (2,), (1, 1), (2, 1), (0, 3), (3, 2)])
@pytest.mark.parametrize("scale", [0.4, 0.9, 1.5, 2.01, 2.02, 3.3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.6])
def test_in_whatever_direction_a_unit_moves_whole_counts_the_noise_costs_no_more_than_a_gaussian(
    shift: tuple[int, ...], scale: float, epsilon: float
) -> None:
    reach = math.ceil(20 * scale)
    noise = rounded(scale)[REACH - reach : REACH + reach + 1]
    claimed = gaussian_delta(scale / math.hypot(*shift), epsilon)
    assert exact_delta(noise, epsilon, shift) <= claimed * (1 + 1e-9) + 1e-15


SCHEMA = schema_lib.build({"a": pa.int64(), "b": pa.string(), "c": pa.float64(), "d": pa.bool_()})


@settings(max_examples=6, deadline=None)  # each costs some privacy loss distributions
@example(epsilon=1.0, method="hybrid", reused=False, rows=700, report=None, relation=REPLACE_ONE)  # curves cost more
@given(
    epsilon=st.floats(0.3, 4.0),
    method=st.sampled_from(["marginals", "hybrid"]),
    reused=st.booleans(),
    rows=st.sampled_from([700, 5000, 60_000]),
    report=st.sampled_from([None, 0.05]),
    relation=st.sampled_from([ADD_REMOVE, ADD_REMOVE, REPLACE_ONE]),
)
def test_the_events_of_a_release_cost_at_most_what_was_asked(
    epsilon: float, method: str, reused: bool, rows: int, report: float | None, relation: str
) -> None:
    asked = ReleaseSettings(
        table="t",
        source="t.csv",
        account="a",
        epsilon=epsilon,
        training={"method": method},
        validation={"report_epsilon": report},
    )
    request = allocation.BudgetRequest.of(asked, DELTA)
    profile = allocation.plan_profile(asked, request, SCHEMA, relation, rows)
    spent: list[Event] = [] if reused else [*profile.count_events(), *profile.histogram_events(SCHEMA)]
    spec, budget = asked.training.spec(), Budget(epsilon, DELTA)
    left = allocation.RemainingBudget(tuple(spent), budget, relation=relation)
    spent.append(allocation.marginals(left, spec, (9, 9, 9, 2), rows, rows, 1).event)
    if method == "hybrid":
        plan, _ = allocation.training(allocation.RemainingBudget(tuple(spent), budget, relation=relation), spec, rows)
        spent.append(plan.event)
    assert accountant.epsilon(spent, DELTA, relation) <= epsilon

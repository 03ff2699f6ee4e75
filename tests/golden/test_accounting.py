"""Costs against the accountants of dp_accounting and Opacus."""

from __future__ import annotations

import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from opacus.accountants import RDPAccountant
from opacus.accountants.analysis.rdp import compute_rdp

from dp_synth_pipeline.privacy import accountant, filter
from dp_synth_pipeline.privacy.events import DiscreteGaussian, Event, Gaussian, SubsampledGaussian

DELTA = 1e-5
EVENTS = (
    SubsampledGaussian(1.1, 0.01, 1000),
    SubsampledGaussian(2.0, 0.0466, 859),
    SubsampledGaussian(4.0, 1.0, 20),
    Gaussian(2.0),
    Gaussian(9.0, 12),
)


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_renyi_costs_equal_those_of_dp_accounting_at_every_pinned_order(event: Event) -> None:
    theirs = RdpAccountant(filter.ORDERS, NeighboringRelation.ADD_OR_REMOVE_ONE).compose(event.to_dp_event())
    ours = [accountant.rdp(event, a) for a in filter.ORDERS]
    assert ours == pytest.approx([float(r) for r in theirs.rdp], rel=1e-12)


@pytest.mark.parametrize("event", [e for e in EVENTS if isinstance(e, SubsampledGaussian)], ids=str)
def test_renyi_costs_of_training_equal_those_of_opacus(event: SubsampledGaussian) -> None:
    for order in filter.ORDERS:
        theirs = compute_rdp(
            q=event.sample_rate, noise_multiplier=event.noise_multiplier, steps=event.steps, orders=[order]
        )
        ours = accountant.rdp(event, order)
        if order == int(order) or event.sample_rate == 1:
            assert ours == pytest.approx(float(theirs[0]), rel=1e-9)
        else:  # dp_accounting interpolates between whole orders, which is a bound from above
            assert float(theirs[0]) * (1 - 1e-9) <= ours <= 1.2 * float(theirs[0])


@pytest.mark.parametrize("event", EVENTS[:2], ids=str)
def test_the_epsilon_by_opacus_is_never_below_ours(event: SubsampledGaussian) -> None:
    theirs = RDPAccountant()
    theirs.history = [(event.noise_multiplier, event.sample_rate, event.steps)]
    ours = accountant.epsilon(event, DELTA)
    assert ours <= theirs.get_epsilon(DELTA) <= 1.25 * ours, "PLD is tighter than RDP, by up to a fifth"


@pytest.mark.parametrize("events", [EVENTS[:1], EVENTS[3:], EVENTS[1:4]], ids=["one", "gaussians", "mixed"])
def test_the_epsilon_equals_that_of_the_pld_accountant_of_dp_accounting(events: tuple[Event, ...]) -> None:
    theirs = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, accountant.DISCRETISATION)
    for event in events:
        theirs.compose(event.to_dp_event())
    assert accountant.epsilon(events, DELTA) == pytest.approx(theirs.get_epsilon(DELTA), rel=1e-3)


def test_a_wide_discrete_gaussian_costs_what_the_continuous_one_does() -> None:
    discrete, continuous = DiscreteGaussian(80.0, 4, 10), Gaussian(20.0, 10)
    assert accountant.rdp(discrete, 10) == accountant.rdp(continuous, 10)
    assert accountant.epsilon(discrete, DELTA) == pytest.approx(accountant.epsilon(continuous, DELTA), rel=2e-3)

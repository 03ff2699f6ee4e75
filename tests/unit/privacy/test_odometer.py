"""What was charged pays for what runs, exactly, and for nothing beyond."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    SubsampledGaussian,
    Threshold,
)
from dp_synth_pipeline.privacy.odometer import Odometer, Unmetered, covers

CHARGED: list[Event] = [
    DiscreteLaplace(10.0, 2),
    DiscreteGaussian(25.0, 1, 3),
    Gaussian(50.0, 8),
    Gaussian(100.0, 9),
    SubsampledGaussian(2.0, 0.01, 20),
    Threshold(1e-8),
]


def spent(*events: Event) -> Odometer:
    odometer = Odometer(CHARGED)
    for event in events:
        odometer.spend(event)
    return odometer


@pytest.mark.parametrize(
    "too_much",
    [
        [DiscreteLaplace(10.0, 2)] * 2,
        [DiscreteLaplace(9.99, 2)],
        [DiscreteLaplace(30.0, 3)],
        [DiscreteLaplace(10.0, 1)],
        [DiscreteGaussian(25.0)] * 4,
        [DiscreteGaussian(25.0, 1, 4)],
        [DiscreteGaussian(25.1)],
        [DiscreteGaussian(25.0, 2)],
        [*[Gaussian(50.0)] * 8, *[Gaussian(100.0)] * 10],
        [Gaussian(50.0)] * 11,
        [Gaussian(10.0)],
        [*[Gaussian(50.0)] * 8, *[Gaussian(100.0)] * 9, Gaussian(1e12)],
        [SubsampledGaussian(2.0, 0.01, 1)] * 21,
        [SubsampledGaussian(1.99, 0.01, 1)],
        [SubsampledGaussian(2.0, 0.0101, 1)],
        [Threshold(5e-9)] * 3,
        [Threshold(1e-8), Threshold(1e-300)],
    ],
    ids=str,
)
def test_the_release_that_nobody_paid_for_is_refused_and_uses_nothing(too_much: list[Event]) -> None:
    *paid, last = too_much
    odometer = spent(*paid)
    used = odometer.used
    with pytest.raises(NotCharged) as refused:
        odometer.spend(last)
    assert last.kind in str(refused.value)
    assert odometer.used == used


def test_all_that_was_charged_may_be_used_in_any_order_and_in_parts() -> None:
    odometer = spent(
        *[Threshold(2.5e-9)] * 4,
        *[Gaussian(100.0)] * 9,
        *[SubsampledGaussian(2.0, 0.01, 1)] * 15,
        SubsampledGaussian(3.0, 0.009, 5),
        Gaussian(25.0, 2),
        DiscreteGaussian(25.0),
        DiscreteLaplace(11.0, 2),
        DiscreteGaussian(25.0, 1, 2),
    )
    assert SubsampledGaussian(2.0, 0.01, 15) in odometer.used
    assert Gaussian(100.0, 9) in odometer.used


def test_an_entry_without_events_pays_for_nothing() -> None:
    with pytest.raises(NotCharged):
        Odometer(()).spend(Threshold(1e-300))


def test_rows_that_are_public_are_not_metered() -> None:
    odometer = Unmetered()
    for event in CHARGED * 3:
        odometer.spend(event)
    assert not odometer.pays_in(DiscreteGaussian)


@given(
    st.lists(st.tuples(st.floats(0.5, 1e4), st.integers(1, 30)), min_size=1, max_size=5),
    st.lists(st.tuples(st.floats(0.5, 1e5), st.integers(1, 30)), min_size=1, max_size=60),
)
def test_gaussian_releases_never_exceed_the_charge_however_they_are_chosen(
    charged: list[tuple[float, int]], asked: list[tuple[float, int]]
) -> None:
    limit = sum(Fraction(n) / Fraction(noise) ** 2 for noise, n in charged)
    odometer, total = Odometer(Gaussian(*c) for c in charged), Fraction(0)
    for one in asked:
        amount = Fraction(one[1]) / Fraction(one[0]) ** 2
        if total + amount <= limit:
            odometer.spend(Gaussian(*one))
            total += amount
        else:
            with pytest.raises(NotCharged):
                odometer.spend(Gaussian(*one))
    assert sum(e.amount for e in odometer.used) == total <= limit


@given(st.lists(st.floats(2.0, 100.0), min_size=1, max_size=4), st.lists(st.floats(2.0, 300.0), min_size=1, max_size=6))
def test_what_is_covered_costs_no_more_by_loss_distributions(charged: list[float], ran: list[float]) -> None:
    allowed, used = [Gaussian(noise) for noise in charged], [Gaussian(noise) for noise in ran]
    if covers(allowed, used):
        assert accountant.epsilon(used, 1e-6) <= accountant.epsilon(allowed, 1e-6) * (1 + 1e-3)


def test_a_mechanism_takes_from_its_own_charge_though_amounts_may_be_divided() -> None:
    declared = [("profile", Gaussian(2.0, 4)), ("marginals", Gaussian(3.0))]
    assert covers(declared, [("profile", Gaussian(1.0)), ("marginals", Gaussian(6.0, 4))])
    assert not covers(declared, [("profile", Gaussian(1.0)), ("profile", Gaussian(6.0))])
    assert covers([e for _, e in declared], [("profile", Gaussian(1.0)), ("profile", Gaussian(6.0))])

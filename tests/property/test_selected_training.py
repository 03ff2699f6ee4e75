"""The best of a secret number of trainings costs what dp_accounting says, and never less than one of them does."""

from __future__ import annotations

import math
from dataclasses import replace

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import REPLACE_ONE
from dp_synth_pipeline.privacy.events import DiscreteLaplace, Gaussian, SelectedTraining, Threshold
from dp_synth_pipeline.privacy.filter import ORDERS
from dp_synth_pipeline.privacy.odometer import covers

WHOLE = [a for a in ORDERS if a == int(a)]
STUDY = SelectedTraining(6.0, 0.05, 600, 20.0, 1.0, 4.0)

studies = st.builds(
    SelectedTraining,
    st.floats(1.0, 30.0),
    st.floats(0.001, 0.5),
    st.integers(1, 2000),
    st.floats(2.0, 100.0),
    st.floats(0.01, 1.0),
    st.floats(1.0, 20.0),
)


@settings(max_examples=15)
@given(studies, st.sampled_from(ORDERS))
def test_its_price_is_that_of_dp_accounting_at_a_whole_order(study: SelectedTraining, order: float) -> None:
    library = RdpAccountant(WHOLE)
    library.compose(study.to_dp_event())
    at = WHOLE.index(math.ceil(order))
    assert accountant.rdp(study, order) == pytest.approx(min(library.rdp[at:]), rel=1e-12)


@settings(max_examples=15)
@given(studies, st.sampled_from(ORDERS))
def test_it_never_costs_less_than_one_of_its_runs_and_more_trials_never_cost_less(
    study: SelectedTraining, order: float
) -> None:
    alone = accountant.rdp(study.run, order)
    one, few, many = (accountant.rdp(replace(study, mean=mean), order) for mean in (1.0, study.mean, study.mean + 1))
    assert alone <= one <= few <= many


def test_its_price_is_the_formula_of_the_theorem() -> None:
    runs = RdpAccountant(WHOLE)
    runs.compose(dpa.ComposedDpEvent([e.to_dp_event() for e in STUDY.run]))
    priced = {
        order: own + STUDY.mean * runs.get_delta(math.log1p(1 / (order - 1))) + math.log(STUDY.mean) / (order - 1)
        for order, own in zip(WHOLE, runs.rdp, strict=True)
    }
    for order in (4, 10, 32):
        least = min(cost for at, cost in priced.items() if at >= order)
        assert accountant.rdp(STUDY, order) == pytest.approx(least, rel=1e-9)


def test_what_it_is_composed_with_is_converted_with_it_from_renyi_curves() -> None:
    events = [Gaussian(8.0, 3), STUDY]
    from_curve = min(
        accountant.rdp(events, a) + math.log1p(-1 / a) - (math.log(1e-5) + math.log(a)) / (a - 1) for a in ORDERS
    )
    assert accountant.epsilon(events, 1e-5) == pytest.approx(from_curve, rel=1e-9)
    counted = [DiscreteLaplace(20.0), *events]
    assert accountant.epsilon(counted, 1e-5) == pytest.approx(from_curve + 1 / 20, rel=1e-9)
    own = accountant.epsilon([*events, Threshold(5e-6)], 1e-5)
    assert own == pytest.approx(accountant.epsilon(events, 5e-6), rel=1e-9)
    assert accountant.epsilon([*events, Threshold(1e-5)], 1e-5) == math.inf


def test_deltas_are_its_epsilon_read_the_other_way_round() -> None:
    at = accountant.epsilon([Gaussian(8.0), STUDY], 1e-5)
    found = accountant.deltas([Gaussian(8.0), STUDY], [at, at + 1])
    np.testing.assert_allclose(found[0], 1e-5, rtol=1e-6)
    assert found[1] < found[0]


def test_under_replacement_nobody_knows_its_price_so_none_is_low_enough() -> None:
    assert accountant.rdp(STUDY, 10, REPLACE_ONE) == math.inf
    assert accountant.epsilon([STUDY], 1e-5, REPLACE_ONE) == math.inf
    assert accountant.deltas([STUDY], [1.0], REPLACE_ONE) == [1.0]


def test_no_privacy_loss_distribution_of_it_can_be_taken_for_free() -> None:
    with pytest.raises(TypeError, match="convert its Rényi curve"):
        STUDY.pld(1e-4)


def test_a_charge_pays_for_one_study_like_it_or_noisier_and_for_no_other() -> None:
    assert covers([STUDY], [STUDY])
    assert covers([STUDY], [STUDY.with_noise(7.0)])
    for other in (
        STUDY.with_noise(5.9),
        replace(STUDY, score_noise_multiplier=19.0),
        replace(STUDY, mean=5.0),
        replace(STUDY, mean=3.0),
        replace(STUDY, steps=601),
        replace(STUDY, sample_rate=0.06),
        STUDY.run[0],
    ):
        assert not covers([STUDY], [other])
    assert not covers([STUDY], [STUDY, STUDY])
    assert not covers([STUDY], [STUDY, STUDY.run[0]])
    assert not covers(STUDY.run, [STUDY])


@pytest.mark.parametrize("change", [{"mean": 0.9}, {"mean": math.nan}, {"steps": 0}, {"score_noise_multiplier": 0.0}])
def test_a_study_that_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        replace(STUDY, **change)

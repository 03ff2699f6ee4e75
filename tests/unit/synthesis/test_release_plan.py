"""A declared plan says which mechanism each event belongs to; one without tags is read as it always was."""

from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    SubsampledGaussian,
    Threshold,
)
from dp_synth_pipeline.synthesis.release_plan import (
    ACCURACY,
    LOSS_QUERIES,
    MARGINALS,
    PROFILE,
    ROW_COUNT,
    TEXT,
    ReleasePlan,
)
from dp_synth_pipeline.synthesis.release_plan import TRAINING as TRAIN

COUNT, BASE, LIMIT, PAIRS = DiscreteLaplace(2.0), DiscreteGaussian(4.0, 1, 3), Threshold(1e-6), Gaussian(3.0)
LOOKS, STEPS, METRICS = SubsampledGaussian(9.0, 0.5, 2), SubsampledGaussian(2.0, 0.5, 3), DiscreteLaplace(50.0, 5)
EVENTS = (COUNT, BASE, LIMIT, PAIRS, METRICS, LOOKS, STEPS)
TAGS = (ROW_COUNT, PROFILE, PROFILE, MARGINALS, ACCURACY, LOSS_QUERIES, TRAIN)


def test_each_mechanism_gets_its_own_events_though_others_run_the_same_kind():
    plan = ReleasePlan.of(EVENTS, TAGS)
    assert plan.training == STEPS
    assert plan.count_epsilons == [0.5]
    assert (plan.marginals_noise, plan.threshold_deltas) == (3.0, [1e-6])
    assert plan.events(PROFILE) == (BASE, LIMIT)


def test_the_order_in_which_a_plan_lists_its_mechanisms_does_not_matter():
    turned = ReleasePlan.of(EVENTS[::-1], TAGS[::-1])
    assert (turned.training, turned.count_epsilons) == (STEPS, [0.5])


def test_a_plan_without_tags_gives_each_kind_of_event_to_the_mechanism_that_ran_such_events():
    plan = ReleasePlan.of((COUNT, BASE, LIMIT, PAIRS, STEPS))
    assert (plan.training, plan.marginals_noise, plan.count_epsilons) == (STEPS, 3.0, [0.5])


def test_a_plan_is_read_back_from_json():
    plan = ReleasePlan.of(EVENTS, TAGS)
    assert ReleasePlan.from_json(plan.to_json()) == plan
    assert plan.flat() == (EVENTS, TAGS)


def test_a_plan_that_names_only_some_mechanisms_is_refused():
    with pytest.raises(InvalidInput, match="of none"):
        ReleasePlan.from_json([{"mechanism": "training", **STEPS.to_dict()}, PAIRS.to_dict()])


def test_what_a_plan_lacks_is_none():
    plan = ReleasePlan.of((COUNT,))
    assert (plan.training, plan.marginals_noise, plan.events(PROFILE), plan.threshold_deltas) == (None, None, (), [])


def test_the_counts_of_texts_are_one_amount_of_noise_and_one_delta():
    plan = ReleasePlan.of((Gaussian(2.0, 4), LIMIT), (TEXT, TEXT))
    assert plan.texts == (1.0, 1e-6)
    assert ReleasePlan.of((PAIRS, LIMIT), (MARGINALS, PROFILE)).texts is None

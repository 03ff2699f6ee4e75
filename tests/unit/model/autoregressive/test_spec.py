from __future__ import annotations

import math

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan, plan_training
from dp_synth_pipeline.model.dpsgd.spec import MAX_EPOCHS, Purpose
from dp_synth_pipeline.privacy.events import SubsampledGaussian


@pytest.mark.parametrize("name", ["seed", "noise_seed", "generator"])
def test_no_seed_can_be_set(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"unknown setting '{name}'; known: .*method, start"):
        GeneratorSpec().with_(**{name: 1})


def test_a_changed_copy_leaves_the_original() -> None:
    spec = GeneratorSpec()
    assert spec.with_(hidden=7).hidden == 7
    assert spec == GeneratorSpec()
    assert GeneratorSpec(**spec.to_dict()) == spec


@pytest.mark.parametrize("name", ["max_epochs", "max_batch", "hidden", "embedding"])
@pytest.mark.parametrize("bad", [0, -3, 1.5, math.nan, "64", None])
def test_sizes_that_are_not_whole_and_at_least_one_are_refused_by_name(name: str, bad: object) -> None:
    if (name, bad) == ("hidden", None):  # sized by the plan
        assert GeneratorSpec().hidden is None
        return
    with pytest.raises(InvalidInput, match=f"{name} must be a whole number of at least 1, got {bad!r}"):
        GeneratorSpec(**{name: bad})


@pytest.mark.parametrize("name", ["batch_share", "learning_rate", "max_grad_norm"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "0.1"])
def test_rates_that_are_not_finite_and_above_zero_are_refused_by_name(name: str, bad: float) -> None:
    with pytest.raises(InvalidInput, match=f"{name} must be finite and above 0"):
        GeneratorSpec(**{name: bad})


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "all"])
def test_a_share_of_steps_to_average_over_lies_between_zero_and_one(bad: object) -> None:
    with pytest.raises(InvalidInput, match="averaging must lie between 0 and 1"):
        GeneratorSpec(averaging=bad)  # type: ignore[arg-type]


def test_unknown_activations_and_optimizers_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="tanh or relu, got 'gelu'"):
        GeneratorSpec(activation="gelu")
    with pytest.raises(InvalidInput, match="adam or sgd, got 'lbfgs'"):
        GeneratorSpec(optimizer="lbfgs")


def test_the_presets_lie_in_the_recommended_ranges() -> None:
    assert 10 <= MAX_EPOCHS[Purpose.TESTING] <= 20
    assert 20 <= MAX_EPOCHS[Purpose.ANALYTICS] <= 50
    assert 50 <= MAX_EPOCHS[Purpose.MACHINE_LEARNING] <= 100


@pytest.mark.parametrize("population", [1, 2, 17, 100, 1000, 43_958, 10**7])
@pytest.mark.parametrize("epochs", [1, 15, 80])
def test_a_plan_makes_the_expected_passes_over_any_population(population: int, epochs: int) -> None:
    spec = GeneratorSpec(max_epochs=epochs)
    plan = plan_training(population, spec)
    assert 0 < plan.sample_rate <= 1
    assert plan.expected_batch == pytest.approx(plan.sample_rate * population)
    assert plan.expected_batch <= min(spec.max_batch, population)
    assert epochs <= plan.steps * plan.sample_rate < epochs + 1 + 1e-9
    assert plan.noise_multiplier == 0, "noise is calibrated afterwards"


def test_a_plan_depends_on_the_population_it_is_given_and_on_nothing_else() -> None:
    assert plan_training(20_190, GeneratorSpec()) == plan_training(20_190, GeneratorSpec())


def test_a_plan_costs_its_steps() -> None:
    assert TrainingPlan(0.1, 20, 10.0, 1.5).event == SubsampledGaussian(1.5, 0.1, 20)
    with pytest.raises(InvalidInput):
        _ = TrainingPlan(0.1, 20, 10.0).event


def test_a_setting_that_came_later_is_said_where_it_is_set_alone() -> None:
    assert "train_only" not in GeneratorSpec().to_dict()
    told = GeneratorSpec(train_only="heads").to_dict()
    assert told["train_only"] == "heads"
    assert GeneratorSpec(**told) == GeneratorSpec(train_only="heads")

"""The learning rate follows from public facts: the plan's steps and noise, and the spec."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.model.dpsgd import plan
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan, learning_rate
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec

NOISE = st.floats(1e-3, 1e4)
STEPS, BATCH = st.integers(1, 10**6), st.floats(1, 1e6)


@given(STEPS, BATCH, NOISE, st.floats(1, 50))
def test_more_steps_or_noise_never_raise_the_learning_rate(steps: int, batch: float, noise: float, more: float) -> None:
    spec, first = TrainingSpec(), TrainingPlan(0.1, steps, batch, noise)
    rate = learning_rate(first, spec)
    assert 0 < rate <= plan.RATES["adam"] * plan.QUIETEST * plan.STRETCH
    for other in (
        TrainingPlan(0.1, int(steps * more), batch, noise),
        TrainingPlan(0.1, steps, batch, noise * more),
        TrainingPlan(0.1, steps, batch / more, noise),
    ):
        assert learning_rate(other, spec) <= rate
    assert learning_rate(first, TrainingSpec(microbatch=8)) <= rate


def test_rate_times_steps_is_kept_and_the_rate_falls_with_the_cube_root_of_the_noise() -> None:
    def rate(steps: int, noise: float, **spec) -> float:
        return learning_rate(TrainingPlan(0.1, steps, 1000.0, noise), TrainingSpec(**spec))

    assert abs(rate(400, 4.0) / rate(800, 4.0) - 2) < 1e-12
    assert abs(rate(600, 32.0) / rate(600, 4.0) - 0.5) < 1e-12
    assert rate(600, 4.0, microbatch=4) == rate(600, 32.0), "twice the sensitivity, a quarter of the groups"
    assert rate(600, 0.0) == rate(600, 1e-9), "without noise, as with next to none"
    assert abs(rate(600, 4.0, optimizer="sgd") / rate(600, 4.0) - plan.RATES["sgd"] / plan.RATES["adam"]) < 1e-9
    assert rate(600, 4.0, learning_rate=0.3) == 0.3

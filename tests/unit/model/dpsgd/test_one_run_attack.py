"""One training on a made-up table: the attacker proves less than was claimed, and far more once there is no noise."""

from __future__ import annotations

import numpy as np
import pytest
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping

from dp_synth_pipeline.model.autoregressive.one_run_target import target
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, one_run_attack
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.one_run import bound

SPEC = GeneratorSpec(hidden=4, embedding=2)
PLAN = TrainingPlan(1 / 8, 64, 50.0, 2.0)
DELTA, CONFIDENCE = 1e-6, 0.999


def attacked(spec: GeneratorSpec = SPEC) -> one_run_attack.Attacked:
    return one_run_attack.attack(target(spec), (5, 3), PLAN, spec, canaries=500, device="cpu")


@pytest.fixture(scope="module")
def claimed() -> float:
    return accountant.epsilon(PLAN.event, DELTA)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_what_is_proved_of_an_honest_training_stays_under_what_was_claimed(claimed: float, optimizer: str) -> None:
    found = attacked(SPEC.with_(optimizer=optimizer))
    assert found.audit.passed
    assert 0.35 < found.included.mean() < 0.65
    assert bound(found.scores, found.included, DELTA, CONFIDENCE).epsilon < claimed
    # About sqrt(steps) * rate / noise = 0.5 deviations apart, seen to 0.09: the attacker is not blind.
    apart = found.scores[found.included].mean() - found.scores[~found.included].mean()
    assert apart / np.std(found.scores) > 0.05


def test_a_training_without_noise_is_proved_to_break_its_claim(claimed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(DPOptimizerFastGradientClipping):
        def add_noise(self) -> None:
            kept, self.noise_multiplier = self.noise_multiplier, 1e-6
            super().add_noise()
            self.noise_multiplier = kept

    monkeypatch.setattr(descent, "DPOptimizerFastGradientClipping", Silent)
    found = attacked()
    proved = bound(found.scores, found.included, DELTA, CONFIDENCE)
    assert proved.epsilon > claimed
    assert found.audit.failed == ["audit_noise"], "which the audit of what ran catches sooner"

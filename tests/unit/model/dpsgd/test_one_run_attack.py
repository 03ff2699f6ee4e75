"""One training on a made-up table of canaries: at least half of what is claimed is proved, and mistakes are convicted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.canary_network import CanaryNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, one_run_attack
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.lower_bound import epsilon_alone, epsilon_of_kind, points, refutes
from tests.unit.model.dpsgd.test_canaries import always_the_same, clipped, not_clipped, quieter, sampled, twice_the_rate

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
SPEC = GeneratorSpec(hidden=4, embedding=2)
DELTA, CONFIDENCE = 1e-5, 0.95
CERTAINTY = 1 - 1e-6
"""Of what decides here whether a test passes: an honest training would be convicted once in a million runs."""

PLANS = {
    1: TrainingPlan(1 / 8, 48, 50.0, 3.35),
    3: TrainingPlan(1 / 8, 48, 50.0, 1.47),
    8: TrainingPlan(1 / 8, 48, 50.0, 0.86),
}
"""By what they claim, or nearly."""


def attacked(plan: TrainingPlan, spec: GeneratorSpec = SPEC, canaries: int = 200_000) -> one_run_attack.Attacked:
    network = CanaryNetwork(canaries)
    return one_run_attack.attack(network, network.everybody(), plan, spec, device="cpu")


def proved(plan: TrainingPlan, seen: one_run_attack.Attacked, confidence: float = CERTAINTY) -> float:
    return epsilon_of_kind(points(seen.out, seen.inside, confidence), plan.event, DELTA)


@pytest.mark.parametrize("claim", PLANS)
def test_at_least_half_of_the_claim_is_proved_and_never_more_than_the_claim(claim: int) -> None:
    plan = PLANS[claim]
    claimed = accountant.epsilon(plan.event, DELTA)
    assert claimed == pytest.approx(claim, rel=0.1)
    seen = attacked(plan)
    assert seen.audit.passed
    assert seen.sums == plan.steps
    assert len(seen.out) + len(seen.inside) >= 199_000
    assert 0.5 * claimed < proved(plan, seen) <= claimed
    assert epsilon_alone(points(seen.out, seen.inside, CONFIDENCE), DELTA) > 0.3 * claimed


@pytest.mark.parametrize(
    "spec",
    [SPEC.with_(optimizer="sgd", max_grad_norm=0.3), SPEC.with_(max_grad_norm=50.0), SPEC.with_(start="mean_var")],
    ids=["sgd", "wide clip", "redrawn"],
)
def test_neither_optimizer_nor_clip_norm_nor_start_changes_what_is_proved(spec: GeneratorSpec) -> None:
    plan = PLANS[3]
    claimed = accountant.epsilon(plan.event, DELTA)
    assert 0.6 * claimed < proved(plan, attacked(plan, spec, 50_000)) <= claimed


def test_a_plan_of_microbatches_is_attacked_row_by_row() -> None:
    seen = attacked(PLANS[3], SPEC.with_(microbatch=4), 20_000)
    assert seen.audit.passed
    assert proved(PLANS[3], seen) > 1.5


def test_a_training_that_samples_everybody_is_the_gaussian_mechanism() -> None:
    plan = TrainingPlan(1.0, 3, 50.0, 2.0)
    claimed = accountant.epsilon(plan.event, DELTA)
    assert 0.7 * claimed < proved(plan, attacked(plan)) <= claimed


def no_noise(patch: Patch) -> None:
    quieter(1e-6)(patch)


def two_steps_for_one(patch: Patch) -> None:
    """The mistake: each step is taken twice, each with noise of its own, and the accountant is told of one."""
    honest = descent.Descent._step

    def twice(self: descent.Descent, step: int) -> None:
        honest(self, step)
        honest(self, step)

    patch.setattr(descent.Descent, "_step", twice)
    patch.setattr(descent.Descent, "_check", lambda self, ran: self.clipping.close())


MUTANTS: dict[str, Callable[[Patch], None]] = {
    "adds nine tenths of the noise": quieter(0.9),
    "adds no noise": no_noise,
    "takes two steps for one": two_steps_for_one,
    "draws at twice the rate": twice_the_rate,
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_more_than_was_claimed_is_proved_of_a_training_that(monkeypatch: Patch, mutant: str) -> None:
    MUTANTS[mutant](monkeypatch)
    plan = PLANS[3]
    seen = attacked(plan)
    assert refutes(points(seen.out, seen.inside, CERTAINTY), plan.event)
    assert proved(plan, seen) > accountant.epsilon(plan.event, DELTA)


def test_a_training_that_does_not_clip_is_convicted_too(monkeypatch: Patch) -> None:
    clipped(not_clipped)(monkeypatch)
    seen = attacked(PLANS[3], canaries=20_000)
    assert proved(PLANS[3], seen) > accountant.epsilon(PLANS[3].event, DELTA)


def test_steps_that_are_taken_twice_are_refused_by_the_accountant_before_any_audit(monkeypatch: Patch) -> None:
    kept = descent.Descent._check
    two_steps_for_one(monkeypatch)
    monkeypatch.setattr(descent.Descent, "_check", kept)
    with pytest.raises(descent.TrainingError, match="accounted"):
        attacked(PLANS[3], canaries=100)


def test_a_sum_more_than_was_charged_for_is_counted(monkeypatch: Patch) -> None:
    two_steps_for_one(monkeypatch)
    assert attacked(PLANS[3], canaries=100).sums == 2 * PLANS[3].steps


def test_many_steps_are_attacked_with_fewer_canaries() -> None:
    asked = [one_run_attack.canaries(TrainingPlan(0.1, steps, 50.0, 2.0)) for steps in (1, 640, 2000, 10**6)]
    assert asked == [200_000, 200_000, 100_000, 50_000]


def test_the_attackers_score_is_the_logarithm_of_the_likelihood_ratio() -> None:
    plan = TrainingPlan(0.3, 2, 4.0, 1.5)
    attacker = one_run_attack.Attacker(plan, 0.5, 3)
    sums = np.array([[0.2, -1.0, 3.0], [1.1, 0.0, 0.5]])
    for seen in sums:
        weight = torch.nn.Parameter(torch.zeros(3))
        weight.grad = torch.tensor(seen * 0.5 / 4.0, dtype=torch.float32)
        attacker.see(torch.optim.SGD([weight], lr=1.0))
    density = lambda x, mean: np.exp(-((x - mean) ** 2) / (2 * 1.5**2))  # noqa: E731
    wanted = np.log((0.7 * density(sums, 0) + 0.3 * density(sums, 1)) / density(sums, 0)).sum(0)
    assert attacker.scores.numpy() == pytest.approx(wanted, abs=1e-6)
    assert attacker.sums == 2


def test_optimizers_of_something_else_are_not_looked_at_and_none_is_afterwards() -> None:
    attacker = one_run_attack.Attacker(TrainingPlan(0.3, 2, 4.0, 1.5), 0.5, 3)
    other = torch.nn.Parameter(torch.zeros(2))
    other.grad = torch.ones(2)
    optimizer = torch.optim.SGD([other], lr=1.0)
    with one_run_attack._watched(attacker):
        optimizer.step()
    assert attacker.sums == 0
    before = attacked(PLANS[3], canaries=100).sums
    optimizer.step()
    assert before == PLANS[3].steps


def test_the_same_units_in_every_step_are_convicted(monkeypatch: Patch) -> None:
    """No canary is then sampled as was claimed: most never, some always."""
    sampled(always_the_same)(monkeypatch)
    seen = attacked(PLANS[1])
    assert refutes(points(seen.out, seen.inside, CERTAINTY), PLANS[1].event)
    assert seen.audit.failed == ["audit_sampling"]

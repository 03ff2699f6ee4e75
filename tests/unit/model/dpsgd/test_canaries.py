"""The audit inside a training: honest runs pass, mistakes of every kind are named, and the network is untouched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import checkpoint, descent, lattice, training
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.optimization import LatticeOptimizer
from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan, TrainingPlan
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
from dp_synth_pipeline.privacy.audit import Audit, Observed

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
CARDS = (6, 3, 4)
SPEC = GeneratorSpec(hidden=6, embedding=3)
PLAN = TrainingPlan(1 / 8, 64, 25.0, 1.3)
ROWS = 200


def codes(rows: int = ROWS) -> np.ndarray:
    rng = np.random.default_rng()
    return np.stack([rng.integers(0, c, rows) for c in CARDS], 1).astype(np.int16)


def audited(plan: TrainingPlan = PLAN, spec: GeneratorSpec = SPEC, rows: int = ROWS, **rest: Any) -> Audit:
    return training.train(AutoregressiveNetwork(CARDS, spec), Training(codes(rows), plan, spec, **rest)).audit


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        (SPEC, {}),
        (SPEC.with_(optimizer="sgd", max_grad_norm=0.3), {}),
        (SPEC.with_(max_grad_norm=50.0), {}),
        (SPEC.with_(microbatch=4), {}),
        (SPEC.with_(start="mean_var"), {}),
        (SPEC, {"units": np.arange(ROWS) // 3}),
        (SPEC, {"rows": 0}),
        (SPEC, {"rows": 1}),
    ],
    ids=["adam", "sgd", "wide clip", "groups", "redrawn", "units", "nobody", "one"],
)
def test_an_honest_training_passes_and_knows_its_noise_to_one_percent(spec: GeneratorSpec, more: dict) -> None:
    audit = audited(spec=spec, **more)
    assert audit.passed, audit.failed
    noise, _, clipping = audit.findings
    assert noise.measured == pytest.approx(1.3, rel=0.03)
    assert 1 / np.sqrt(2 * 20_000) <= 0.01
    assert clipping.measured == pytest.approx(1.0, abs=1e-4), "the made-up examples are large enough to be clipped"


@pytest.mark.parametrize("steps", [1, 2, 149, 150, 400])
def test_a_training_of_any_length_is_audited(steps: int) -> None:
    audit = audited(TrainingPlan(1 / 8, steps, 25.0, 1.3))
    assert audit.passed
    assert audit.steps == steps


def test_a_sampling_rate_of_one_or_of_next_to_nothing_passes() -> None:
    assert audited(TrainingPlan(1.0, 5, 200.0, 1.3)).passed
    assert audited(TrainingPlan(1e-12, 5, 200.0, 1.3)).passed


def quieter(factor: float) -> Callable[[Patch], None]:
    class Quieter(LatticeOptimizer):
        """The mistake: another noise than the one that is accounted for."""

        def add_noise(self) -> None:
            self.noise_multiplier *= factor
            super().add_noise()
            self.noise_multiplier /= factor

    return lambda patch: patch.setattr(descent, "LatticeOptimizer", Quieter)


def noise_again(patch: Patch) -> None:
    drawn: dict[int, np.ndarray] = {}
    honest = lattice.rounded_gaussian
    patch.setattr(lattice, "rounded_gaussian", lambda scale, size: drawn.setdefault(size, honest(scale, size)))


def sampled(draw: Callable[[PoissonSampler], np.ndarray]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(PoissonSampler, "draw", draw)


def twice_the_rate(patch: Patch) -> None:
    honest = PoissonSampler.__init__
    patch.setattr(PoissonSampler, "__init__", lambda self, units, rate: honest(self, units, 2 * rate))


def shuffled(sampler: PoissonSampler) -> np.ndarray:
    """The mistake of most libraries: batches of one size from a shuffled order, each unit once in an epoch."""
    size = round(sampler.units * sampler.sample_rate)
    order = getattr(sampler, "order", np.zeros(0, int))
    if len(order) < size:
        order = np.random.default_rng().permutation(sampler.units)
    sampler.order = order[size:]  # type: ignore[attr-defined]
    return order[:size]


def always_the_same(sampler: PoissonSampler) -> np.ndarray:
    size = round(sampler.units * sampler.sample_rate)
    return np.arange(0, sampler.units, max(1, sampler.units // max(size, 1)))


def clipped(backward: Callable[[OnePassClipping, torch.Tensor], None]) -> Callable[[Patch], None]:
    def install(patch: Patch) -> None:
        class Mutant(OnePassClipping):
            honest = OnePassClipping.backward

        Mutant.backward = backward  # type: ignore[method-assign]
        patch.setattr(descent, "OnePassClipping", Mutant)

    return install


def not_clipped(clipping: Any, losses: torch.Tensor) -> None:
    kept, clipping.max_grad_norm = clipping.max_grad_norm, 1e6
    clipping.honest(losses)
    clipping.max_grad_norm = kept


def clipped_a_little_late(clipping: Any, losses: torch.Tensor) -> None:
    clipping.max_grad_norm *= 1.05
    clipping.honest(losses)
    clipping.max_grad_norm /= 1.05


def clipped_together(clipping: Any, losses: torch.Tensor) -> None:
    """The mistake: the batch's gradient is clipped, not each unit's."""
    clipping._seen.clear()
    whole = torch.autograd.grad(losses.sum(), parameters := list(clipping.network.parameters()))
    factor = (clipping.max_grad_norm / torch.cat([g.flatten() for g in whole]).norm()).clamp(max=1)
    for p, g in zip(parameters, whole, strict=True):
        clipping.sums[p] = clipping.sums.get(p, 0) + clipping.lattice.whole(g * factor)


def together(patch: Patch) -> None:
    honest = descent.Descent.__init__

    def begin(self: Any, work: Any, network: Any, team: Any, **private: Any) -> None:
        honest(self, work, network, team, **private)
        self.clipping.network = network

    clipped(clipped_together)(patch)
    patch.setattr(descent.Descent, "__init__", begin)


MUTANTS: dict[str, tuple[Callable[[Patch], None], str]] = {
    "adds nine tenths of the noise": (quieter(0.9), "audit_noise"),
    "adds half of the noise": (quieter(0.5), "audit_noise"),
    "adds all but no noise": (quieter(1e-9), "audit_noise"),
    "adds the same noise in every step": (noise_again, "audit_noise"),
    "draws at twice the rate": (twice_the_rate, "audit_sampling"),
    "shuffles": (sampled(shuffled), "audit_sampling"),
    "draws the same units each time": (sampled(always_the_same), "audit_sampling"),
    "does not clip": (clipped(not_clipped), "audit_clipping"),
    "clips at five percent more": (clipped(clipped_a_little_late), "audit_clipping"),
    "clips whole batches": (together, "audit_clipping"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_training_is_caught_that(monkeypatch: Patch, mutant: str) -> None:
    install, name = MUTANTS[mutant]
    install(monkeypatch)
    assert audited().failed == [name]


def test_how_much_is_reserved_depends_on_the_plan_alone(monkeypatch: Patch) -> None:
    seen: list[Observed] = []
    honest = Audit.of
    monkeypatch.setattr(
        descent.Audit, "of", lambda observed, *claims: (seen.append(observed), honest(observed, *claims))[1]
    )
    for rows in (0, 7, 1000):
        assert audited(rows=rows).passed
    assert len({(s.steps, s.draws, s.pairs, s.units) for s in seen}) == 1
    assert len({s.squares for s in seen}) == 3, "each was measured"


def test_the_reserved_parameter_has_no_place_in_network_average_or_checkpoint(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    kept: list[descent.Descent] = []
    honest = descent.Descent.go
    monkeypatch.setattr(descent.Descent, "go", lambda self, hooks: (kept.append(self), honest(self, hooks))[1])
    network = training.train(
        AutoregressiveNetwork(CARDS, SPEC),
        Training(codes(), TrainingPlan(1 / 8, 60, 25.0, 1.3), SPEC, checkpoints=tmp_path),
    ).network
    (done,) = kept
    assert done.canaries is not None
    reserved = done.canaries.parameter
    assert any(p is reserved for p in done.optimizer.params)  # type: ignore[union-attr]
    assert not any(p is reserved for p in network.parameters())
    assert set(network.state_dict()) == set(AutoregressiveNetwork(CARDS, SPEC).state_dict())
    weights = sum(p.numel() for p in network.parameters())
    assert [len(average) for average in done.average.weights] == [weights]
    saved = checkpoint.load(tmp_path, done.flat, done.inner, done.average)
    assert set(saved.audit) == {"sums", "times", "facts"}
    sizes = held(tmp_path)
    assert sizes["weights"] == sizes["average"] == sizes["moment.exp_avg"] == [weights]


def held(folder: Path) -> dict[str, list[int]]:
    from safetensors import safe_open

    with safe_open(folder / checkpoint.FILE, "pt") as file:
        return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118


def test_real_units_are_drawn_as_if_nothing_were_reserved() -> None:
    counts = np.zeros(50)
    sizes = []
    plan, spec = TrainingPlan(0.3, 2000, 15.0, 1.3), SPEC
    begun = descent.Descent(Training(codes(50), plan, spec), AutoregressiveNetwork(CARDS, spec), descent.Team())
    begun.rows.take = lambda chosen: chosen  # type: ignore[method-assign, assignment, return-value]
    for _ in range(2000):
        chosen: Any = begun._sample()
        assert len(set(chosen)) == len(chosen)
        counts[chosen] += 1
        sizes.append(len(chosen))
    assert np.abs(counts / 2000 - 0.3).max() < 5.5 * np.sqrt(0.21 / 2000)
    assert np.var(sizes) == pytest.approx(50 * 0.21, rel=0.2), "sizes are binomial"


def test_an_audit_goes_on_where_a_killed_training_had_come_to(tmp_path: Path, monkeypatch: Patch) -> None:
    plan = TrainingPlan(1 / 8, 130, 25.0, 1.3)
    quieter(0.5)(monkeypatch)
    with pytest.raises(OSError, match="gone"):
        training.train(
            AutoregressiveNetwork(CARDS, SPEC),
            Training(codes(), plan, SPEC, checkpoints=tmp_path),
            Hooks(mark=dies_at(130)),
        )
    monkeypatch.undo()
    resumed = training.train(
        AutoregressiveNetwork(CARDS, SPEC), Training(codes(), plan, SPEC, checkpoints=tmp_path, resume_from=100)
    ).audit
    assert resumed.steps == 130, "the steps before the checkpoint count"
    assert resumed.failed == ["audit_noise"], "and so does what was wrong with them"


def test_an_audit_without_a_checkpoint_starts_anew(tmp_path: Path) -> None:
    resumed = training.train(
        AutoregressiveNetwork(CARDS, SPEC),
        Training(codes(), TrainingPlan(1 / 8, 130, 25.0, 1.3), SPEC, resume_from=100),
    ).audit
    assert resumed.steps == 30
    assert resumed.passed


def dies_at(steps: int) -> Callable[[int], None]:
    def mark(started: int) -> None:
        if started >= steps:
            raise OSError("the ledger is gone")

    return mark


def test_a_training_that_a_query_ends_is_audited_for_the_steps_it_ran(monkeypatch: Patch) -> None:
    from dp_synth_pipeline.model.dpsgd.loss_queries import LossQueries

    monkeypatch.setattr(LossQueries, "_falls", lambda self, deviation: False)
    trained = training.train(
        AutoregressiveNetwork(CARDS, SPEC),
        Training(codes(), TrainingPlan(1 / 8, 120, 25.0, 1.3), SPEC, queries=LossQueriesPlan(1, 0.5, 2.0)),
    )
    assert trained.stopped_at is not None
    assert trained.audit.steps == trained.event.steps == trained.stopped_at
    assert trained.audit.passed

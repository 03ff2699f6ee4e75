"""Units that are computed one by one are clipped exactly, as autograd and Opacus have their gradients, for any module."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus import GradSampleModule
from torch import nn

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.one_by_one import OneByOneClipping
from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan, TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.trainable import Trainable
from dp_synth_pipeline.model.dpsgd.training import train, train_public
from dp_synth_pipeline.model.dpsgd.work import Training

CODES = 5


class Shared(Trainable):
    """A layer that is used once for each of two columns, which clipping in one pass refuses."""

    one_by_one = True

    def __init__(self) -> None:
        super().__init__()
        self.cardinalities = (CODES, CODES)
        self.layer = nn.Linear(CODES, CODES)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.layer(nn.functional.one_hot(codes, CODES).to(self.layer.weight.dtype))

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        logits = self(codes).transpose(-1, -2)
        flat = nn.functional.cross_entropy(logits.flatten(0, -3), codes.flatten(0, -2).flip(-1), reduction="none")
        return flat.sum(-1).view(codes.shape[:-1])

    def forget_unused(self) -> None:
        """Keep all."""

    def blueprint(self) -> Callable[[], Shared]:
        return Shared


class Shares(Shared):
    """Shares of two columns' codes, of which each row reads a copy, so that units are derived together."""

    def __init__(self, at_once: int = 64) -> None:
        Trainable.__init__(self)
        self.cardinalities, self._most = (CODES, CODES), at_once
        self.logits = nn.Parameter(torch.zeros(2, CODES))

    @property
    def at_once(self) -> int:
        return self._most

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        self._copies = self.logits.expand(*codes.shape, CODES)
        return -self._copies.log_softmax(-1).gather(-1, codes[..., None]).sum((-1, -2))

    def gradients(self, losses: torch.Tensor) -> torch.Tensor:
        (of_rows,) = torch.autograd.grad(losses.sum(), self._copies)
        return of_rows.reshape(len(losses), -1, 2 * CODES).sum(1)


def clipped_sum(network: Trainable, codes: torch.Tensor, lattice: Lattice) -> torch.Tensor:
    clipping = OneByOneClipping(network, lattice)
    for row in codes:
        clipping.backward(network.losses(row[None]))
    return clipping.take().double() * lattice.spacing


@pytest.mark.parametrize("bound", [0.05, 1.0, 100.0])
def test_the_sum_is_that_of_opacus_own_per_example_gradients_each_clipped(bound: float) -> None:
    network, lattice = Shared().double(), Lattice(bound)
    codes = torch.randint(CODES, (9, 2))
    hooked = GradSampleModule(Shared().double(), loss_reduction="sum")
    hooked._module.load_state_dict(network.state_dict())
    logits = hooked(codes).transpose(-1, -2)
    nn.functional.cross_entropy(logits, codes.flip(-1), reduction="none").sum().backward()
    each = torch.cat([p.grad_sample.flatten(1) for p in hooked.parameters()], 1)
    wanted = (each * (bound / each.norm(dim=1)).clamp(max=1)[:, None]).sum(0)
    found = clipped_sum(network, codes, lattice)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=9 * 2 * bound * 2.0**-20)


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40),
    bound=st.sampled_from([1e-6, 0.3, 1.0, 1e6]),
)
def test_no_gradient_moves_the_sum_by_more_than_the_bound(numbers: list[float], bound: float) -> None:
    lattice = Lattice(bound)
    found = OneByOneClipping(Shared(), lattice).clipped(torch.tensor([numbers], dtype=torch.float32))[0]
    assert sum(int(x) ** 2 for x in found) <= 4**lattice.bits
    norm = math.sqrt(sum(x * x for x in numbers))
    if norm <= bound / 2:
        np.testing.assert_allclose(found * lattice.spacing, numbers, atol=lattice.spacing)
    elif norm >= bound:
        assert math.sqrt(sum(int(x) ** 2 for x in found)) * lattice.spacing >= bound * (1 - 2.0**-19)


def test_a_gradient_that_is_not_finite_adds_nothing() -> None:
    clipping = OneByOneClipping(Shared(), Lattice(1.0))
    for bad in (math.nan, math.inf, -math.inf):
        assert not clipping.clipped(torch.tensor([[1.0, bad]])).any()
    assert not clipping.take().any()


def test_several_units_at_once_are_refused() -> None:
    network = Shared()
    with pytest.raises(TrainingError, match="one by one"):
        OneByOneClipping(network, Lattice(1.0)).backward(network.losses(torch.zeros(2, 2, dtype=torch.int64)))


@pytest.mark.parametrize("rows_a_unit", [1, 3])
@pytest.mark.parametrize("made", [Shared, Shares])
def test_such_a_network_learns_by_dp_sgd_and_its_audit_passes(made: type[Shared], rows_a_unit: int) -> None:
    first = np.arange(3_000) % CODES
    codes = np.stack([first, (first + 1) % CODES], 1).astype(np.int16)
    units = None if rows_a_unit == 1 else np.arange(len(codes)) // rows_a_unit
    plan = TrainingPlan(
        sample_rate=0.05, steps=40, expected_batch=0.05 * len(codes) / rows_a_unit, noise_multiplier=0.8
    )
    spec = TrainingSpec(learning_rate=0.2)
    trained = train(made(), Training(codes, plan, spec, units=units))
    assert trained.audit.passed
    assert trained.event == plan.event
    with torch.no_grad():
        loss = trained.network.losses(torch.from_numpy(codes[:100].astype(np.int64))).mean()
    assert loss < (0.8 if made is Shared else 1.01) * 2 * math.log(CODES)  # shares alone tell nothing here
    train_public(made(), Training(codes, plan, spec, units=units))


def test_units_that_are_derived_together_are_clipped_as_each_alone() -> None:
    codes, lattice = torch.randint(CODES, (64, 3, 2)), Lattice(0.5)
    together, alone = (OneByOneClipping(Shares(), lattice) for _ in range(2))
    together.backward(together.network.losses(codes).sum(1))
    for unit in codes:
        alone.backward(alone.network.losses(unit[None]).sum(1))
    assert torch.equal(together.take(), alone.take())


def test_without_noise_to_speak_of_units_together_teach_what_each_alone_does() -> None:
    codes, ends = np.random.default_rng().integers(0, 2, (500, 2)).astype(np.int16), []
    for at_once in (1, 64):
        found = train(
            Shares(at_once), Training(codes, TrainingPlan(1.0, 5, 500.0, 1e-9), TrainingSpec(learning_rate=0.3))
        )
        ends.append(found.network.logits.detach())
    assert ends[0].abs().max() > 0.5
    torch.testing.assert_close(*ends, rtol=1e-4, atol=1e-4)


def test_losses_that_are_asked_for_are_computed_one_by_one() -> None:
    asked: list[int] = []

    class Counted(Shares):
        def losses(self, codes: torch.Tensor) -> torch.Tensor:
            if not torch.is_grad_enabled():
                asked.append(len(codes))
            return super().losses(codes)

    plan = TrainingPlan(sample_rate=0.5, steps=2, expected_batch=50.0, noise_multiplier=1.0)
    queries = LossQueriesPlan(1, 0.5, 1.0, at_end=True)
    codes = np.random.default_rng().integers(0, CODES, (100, 2)).astype(np.int16)
    train(Counted(), Training(codes, plan, TrainingSpec(learning_rate=0.1), queries=queries))
    assert set(asked) == {1}

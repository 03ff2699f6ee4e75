"""Clipping in one backward pass against Opacus' per-example gradients, and against a gradient for each unit by itself."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from opacus import GradSampleModule
from opacus.optimizers import (
    AdaClipDPOptimizer,
    DistributedDPOptimizer,
    DistributedDPOptimizerFastGradientClipping,
    DPOptimizer,
    DPOptimizerFastGradientClipping,
    DPPerLayerOptimizer,
    SimpleDistributedPerLayerOptimizer,
)

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive import opacus_modes  # noqa: F401  registers what `GradSampleModule` asks for
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Before
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping, attach

CARDINALITIES = (3, 7, 2, 5, 1)
SPEC = GeneratorSpec(hidden=6, embedding=3)
C = 0.7
Sum = list[torch.Tensor]


pytestmark = pytest.mark.usefixtures("one_thread")


ORDERS = ((), (6, *range(5)), (), range(5), ())


MOVING = {1: Before(0, (5, 0, 1, 6)), 3: Before(2, (4, 0, 2))}
"""Two columns that move, of which an earlier one tells the code before."""

APART = {2: Before(0, (1, 0)), 3: Before(0, (0, 1, 2))}
"""Two columns, one of which moves as well, of which an earlier one tells the code beside."""


def network(
    activation: str = "tanh",
    *,
    orders: Sequence[Sequence[int]] = (),
    **told: Mapping[int, Before],
) -> AutoregressiveNetwork:
    """A network whose every weight matters: the heads start at zero, where gradients of the layers below vanish."""
    made = AutoregressiveNetwork(CARDINALITIES, SPEC.with_(activation=activation), orders=orders, **told)
    made.mix()
    with torch.no_grad():
        for block in made.blocks:
            block.heads.weight.normal_()
            block.heads.bias.normal_()
            for relative in (block.relative, block.beside):
                if relative is not None:
                    relative.each.weight.normal_()
    return made


def draw_codes(*shape: int) -> torch.Tensor:
    return torch.stack([torch.randint(0, c, shape) for c in CARDINALITIES], -1)


def unit_losses(net: torch.nn.Module, codes: torch.Tensor, present: torch.Tensor | None) -> torch.Tensor:
    logits = net(codes)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), codes.flatten(), reduction="none")
    loss = loss.unflatten(0, codes.shape).sum(-1)
    return loss if present is None else (loss * present).sum(1)


def one_pass(net: AutoregressiveNetwork, codes: torch.Tensor, present: torch.Tensor | None, scale: torch.Tensor) -> Sum:
    clipping = OnePassClipping(net, C)
    losses = net.losses(codes)
    losses = losses if present is None else (losses * present).sum(1)
    clipping.backward(losses * scale)
    clipping.close()
    sums = clipping.lattice.values(clipping.take()).split([p.numel() for p in net.parameters()])
    return [total.view_as(p) for total, p in zip(sums, net.parameters(), strict=True)]


def clipped(per_unit: list[torch.Tensor]) -> Sum:
    """Clip gradients of shape (units, ...) as the definition says, in double precision."""
    doubles = [g.double().flatten(1) for g in per_unit]
    norms = torch.cat(doubles, 1).norm(dim=1)
    weights = (C / (norms + 1e-6)).clamp(max=1.0)
    return [(g * weights[:, None]).sum(0).view(p.shape[1:]).float() for g, p in zip(doubles, per_unit, strict=True)]


def opacus_hooks(
    net: AutoregressiveNetwork, codes: torch.Tensor, present: torch.Tensor | None, scale: torch.Tensor
) -> Sum:
    # Not strict: our layers have buffers, which Opacus warns of since BatchNorm's hold data; ours hold masks and offsets.
    module = GradSampleModule(net, batch_first=True, loss_reduction="sum", strict=False)
    losses = unit_losses(module, codes, present)
    (losses * scale).sum().backward()
    grads = [p.grad_sample for p in net.parameters()]
    module.remove_hooks()
    return clipped(grads)


def one_by_one(
    net: AutoregressiveNetwork, codes: torch.Tensor, present: torch.Tensor | None, scale: torch.Tensor
) -> Sum:
    losses = unit_losses(net, codes, present) * scale
    each = [torch.autograd.grad(loss, list(net.parameters()), retain_graph=True) for loss in losses]
    return clipped([torch.stack(g) for g in zip(*each, strict=True)])


def distance(a: Sum, b: Sum) -> float:
    return float(torch.cat([(x - y).flatten() for x, y in zip(a, b, strict=True)]).norm())


def size(a: Sum) -> float:
    return float(torch.cat([x.flatten() for x in a]).norm())


ONES = torch.ones(24)
PRESENT = (torch.arange(5)[None, :] < torch.tensor([1, 2, 3, 5] * 6)[:, None]).float()
SPREAD = torch.logspace(-4, 4, 24)
"""Gradients from far under to far over the clip."""

CASES = {
    "rows": ((24,), None, ONES),
    "rows, spread": ((24,), None, SPREAD),
    "units": ((24, 5), torch.ones(24, 5), ONES),
    "units, padded": ((24, 5), PRESENT, ONES),
    "units, spread": ((24, 5), PRESENT, SPREAD),
    "units of one row": ((24, 1), torch.ones(24, 1), SPREAD),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("activation", "orders", "told"),
    [("tanh", (), {}), ("relu", (), {}), ("tanh", ORDERS, {}), ("tanh", ORDERS, {"moving": MOVING, "apart": APART})],
)
@pytest.mark.parametrize("reference", [opacus_hooks, one_by_one])
def test_the_clipped_sum_is_the_one_of_per_example_gradients(
    case: str,
    activation: str,
    orders: Sequence[Sequence[int]],
    told: Mapping[str, Mapping[int, Before]],
    reference: Callable,
) -> None:
    shape, present, scale = CASES[case]
    net, codes = network(activation, orders=orders, **told), draw_codes(*shape)
    expected = reference(net, codes, present, scale)
    found = one_pass(net, codes, present, scale)
    assert distance(found, expected) <= 1e-5 * size(expected)


def test_padding_weighs_nothing_whatever_it_holds() -> None:
    net, codes = network(), draw_codes(24, 5)
    other = torch.where(PRESENT[..., None].bool(), codes, draw_codes(24, 5))
    assert distance(one_pass(net, codes, PRESENT, ONES), one_pass(network_like(net), other, PRESENT, ONES)) < 1e-5


def network_like(net: AutoregressiveNetwork) -> AutoregressiveNetwork:
    copy = AutoregressiveNetwork(CARDINALITIES, SPEC)
    copy.load_state_dict(net.state_dict())
    return copy


@pytest.mark.parametrize("shape", [(0,), (0, 5)])
def test_an_empty_batch_gives_zero_gradients(shape: tuple[int, ...]) -> None:
    net = network()
    present = torch.ones(shape) if len(shape) == 2 else None
    found = one_pass(net, draw_codes(*shape), present, torch.ones(0))
    assert len(found) == len(list(net.parameters()))
    assert size(found) == 0


def check_bounded(clip: Callable[..., Sum], rows: int | None) -> None:
    """One unit with a gradient of 10^6 and more moves the sum by at most C."""
    net = network()
    shape = (24,) if rows is None else (24, rows)
    codes = draw_codes(*shape)
    present = None if rows is None else torch.ones(24, rows)
    loud = torch.ones(24)
    loud[-1] = 1e7
    with_it = clip(network_like(net), codes, present, loud)
    without = clip(network_like(net), codes[:-1], present if present is None else present[:-1], loud[:-1])
    assert distance(with_it, without) <= C * (1 + 1e-4)
    assert distance(with_it, without) >= 0.9 * C, "its gradient was over the clip, so it moves the sum by the clip"


@pytest.mark.parametrize("rows", [None, 4])
def test_one_unit_with_a_huge_gradient_moves_the_sum_by_the_clip_at_most(rows: int | None) -> None:
    check_bounded(one_pass, rows)


def average_first(
    net: AutoregressiveNetwork, codes: torch.Tensor, present: torch.Tensor | None, scale: torch.Tensor
) -> Sum:
    """The mistake: clip the average gradient, then multiply by the number of units."""
    grads = torch.autograd.grad((unit_losses(net, codes, present) * scale).mean(), list(net.parameters()))
    weight = min(1.0, C / size(list(grads)))
    return [g * weight * len(codes) for g in grads]


def row_by_row(
    net: AutoregressiveNetwork, codes: torch.Tensor, present: torch.Tensor | None, scale: torch.Tensor
) -> Sum:
    """The mistake: clip each row of a unit instead of the unit."""
    return one_by_one(net, codes.flatten(0, 1), None, scale.repeat_interleave(codes.shape[1]))


def no_clip(net: AutoregressiveNetwork, codes: torch.Tensor, present: torch.Tensor | None, scale: torch.Tensor) -> Sum:
    return list(torch.autograd.grad((unit_losses(net, codes, present) * scale).sum(), list(net.parameters())))


@pytest.mark.parametrize(
    ("mutant", "rows"), [(average_first, None), (average_first, 4), (row_by_row, 12), (no_clip, None)]
)
def test_clipping_that_is_done_wrong_is_caught(mutant: Callable[..., Sum], rows: int | None) -> None:
    with pytest.raises(AssertionError):
        check_bounded(mutant, rows)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_unit_without_a_finite_gradient_contributes_nothing(bad: float) -> None:
    net, codes = network(), draw_codes(24)
    scale = torch.ones(24)
    scale[-1] = bad
    found = one_pass(network_like(net), codes, None, scale)
    assert distance(found, one_pass(network_like(net), codes[:-1], None, scale[:-1])) <= 1e-5


def test_a_layer_used_twice_before_backward_is_refused() -> None:
    net, codes = network(), draw_codes(4)
    clipping = OnePassClipping(net, C)
    net.losses(codes)
    with pytest.raises(TrainingError, match="used twice"):
        net.losses(codes)
    clipping.backward(net.losses(codes))


def test_drawing_and_evaluating_leave_no_trace() -> None:
    net, codes = network(), draw_codes(4)
    clipping = OnePassClipping(net, C)
    with torch.no_grad():
        net.losses(codes)
        net.losses(codes)
    clipping.backward(net.losses(codes))


def test_a_layer_without_a_clipped_sum_is_refused() -> None:
    with pytest.raises(TrainingError, match="layers of type Linear"):
        OnePassClipping(torch.nn.Sequential(torch.nn.Linear(2, 2)), C)


def adaptive(inner: torch.optim.Optimizer, **facts: float) -> AdaClipDPOptimizer:
    return AdaClipDPOptimizer(
        inner,
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.3,
        max_clipbound=10.0,
        min_clipbound=0.01,
        unclipped_num_std=1e-12,
        **(facts | {"max_grad_norm": 4.0}),  # some of the units lie under it
    )


BOUNDS = [0.05, 0.3, 0.01, 0.5, 0.2, 0.4, 0.1]
OPTIMIZERS = {
    "flat": lambda inner, **facts: DPOptimizer(inner, **facts),
    "ghost": lambda inner, **facts: DPOptimizerFastGradientClipping(inner, **facts),
    "per layer": lambda inner, **facts: DPPerLayerOptimizer(inner, **(facts | {"max_grad_norm": bounds_of(inner)})),
    "adaptive": adaptive,
    "flat, distributed": lambda inner, **facts: DistributedDPOptimizer(inner, **facts),
    "ghost, distributed": lambda inner, **facts: DistributedDPOptimizerFastGradientClipping(inner, **facts),
    "per layer, distributed": lambda inner, **facts: SimpleDistributedPerLayerOptimizer(
        inner, **(facts | {"max_grad_norm": bounds_of(inner)})
    ),
}
"""All of Opacus 1.6, but the one for FSDP, whose sharded weights need several GPUs."""


def bounds_of(inner: torch.optim.Optimizer) -> list[float]:
    parameters = [p for group in inner.param_groups for p in group["params"]]
    return [BOUNDS[i % len(BOUNDS)] for i in range(len(parameters))]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def trained(net: AutoregressiveNetwork, make: Callable, batches: list[torch.Tensor], ours: bool) -> tuple[Sum, float]:
    """Three steps of SGD without noise; by our clipping, or by Opacus' own per-example gradients."""
    inner = torch.optim.SGD(net.parameters(), lr=0.5)
    optimizer = make(inner, noise_multiplier=0.0, max_grad_norm=C, expected_batch_size=24, loss_reduction="mean")
    clipping = OnePassClipping(net, C) if ours else None
    module = net if ours else GradSampleModule(net, batch_first=True, loss_reduction="sum", strict=False)
    if clipping is not None:
        attach(clipping, optimizer)
    for codes in batches:
        optimizer.zero_grad()
        if clipping is not None:
            clipping.backward(net.losses(codes))
        else:
            unit_losses(module, codes, None).sum().backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()], float(optimizer.max_grad_norm)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_of_opacus_takes_our_sums_as_its_own(name: str, group: None) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(
            2
        )  # made so, 11 of the 72 units lie under the adaptive bound; of others none may, or just half
        first, batches = network(), [draw_codes(24) for _ in range(3)]
    make, second = OPTIMIZERS[name], copy.deepcopy(first)
    before = [p.detach().clone() for p in first.parameters()]
    ours, bound = trained(first, make, batches, ours=True)
    reference = "flat" if name.startswith("ghost") else name  # whose own ghost mode needs a loss of its own
    theirs, other = trained(second, OPTIMIZERS[reference], batches, ours=False)
    assert distance(ours, theirs) <= 1e-5 * max(1.0, size(theirs))
    assert distance(ours, before) > 0.01
    assert bound == pytest.approx(other)
    if name == "adaptive":
        assert 0.01 < bound < 10
        assert abs(bound / 4 - 1) > 0.01, "the bound moved"
        assert abs(bound / 4 - math.exp(0.3 * 0.5 * 3)) > 0.01, "and not as if every unit lay over it"


def test_noise_is_the_optimizers_own(group: None) -> None:
    for name in ("flat", "ghost", "per layer"):
        net = network()
        inner = torch.optim.SGD(net.parameters(), lr=1.0)
        optimizer = OPTIMIZERS[name](inner, noise_multiplier=3.0, max_grad_norm=C, expected_batch_size=1)
        clipping, before = OnePassClipping(net, C), [p.detach().clone() for p in net.parameters()]
        attach(clipping, optimizer)
        clipping.backward(net.losses(draw_codes(24)) * 0)
        optimizer.step()
        moved = torch.cat([(p.detach() - b).flatten() for p, b in zip(net.parameters(), before, strict=True)])
        assert float(moved.std()) == pytest.approx(3.0 * optimizer.max_grad_norm, rel=6.5 / (2 * len(moved)) ** 0.5)


def test_a_step_without_a_backward_pass_is_refused() -> None:
    net = network()
    optimizer = DPOptimizer(
        torch.optim.SGD(net.parameters(), lr=1.0), noise_multiplier=1.0, max_grad_norm=C, expected_batch_size=1
    )
    attach(OnePassClipping(net, C), optimizer)
    with pytest.raises(TrainingError, match="backward"):
        optimizer.step()

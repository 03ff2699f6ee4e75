"""Clipping in one backward pass against Opacus' per-example gradients, and against a gradient for each unit by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from opacus import GradSampleModule

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.clipping import OnePassClipping
from dp_synth_pipeline.model.network import AutoregressiveNetwork
from dp_synth_pipeline.model.spec import GeneratorSpec

CARDINALITIES = (3, 7, 2, 5, 1)
SPEC = GeneratorSpec(hidden=6, embedding=3)
C = 0.7
Sum = list[torch.Tensor]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def network(activation: str = "tanh") -> AutoregressiveNetwork:
    """A network whose every weight matters: the heads start at zero, where gradients of the layers below vanish."""
    made = AutoregressiveNetwork(CARDINALITIES, SPEC.with_(activation=activation))
    with torch.no_grad():
        made.heads.weight.normal_()
        made.heads.bias.normal_()
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
    return [p.grad.clone() for p in net.parameters() if p.grad is not None]


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
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("reference", [opacus_hooks, one_by_one])
def test_the_clipped_sum_is_the_one_of_per_example_gradients(case: str, activation: str, reference: Callable) -> None:
    shape, present, scale = CASES[case]
    net, codes = network(activation), draw_codes(*shape)
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

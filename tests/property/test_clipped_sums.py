"""One unit moves a clipped sum by the clip at most, in whole numbers and whatever it is: cancelling, huge, tiny, broken."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Before
from dp_synth_pipeline.model.dpsgd.batches import parts
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.lattice import Lattice

CARDS = (3, 7, 2, 5)
SPEC = GeneratorSpec(hidden=6, embedding=3)
MOVING = {1: Before(0, (5, 0, 1, 6)), 3: Before(2, (4, 0, 2))}
pytestmark = pytest.mark.usefixtures("one_thread")


def network(size: float) -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(CARDS, SPEC, moving=MOVING)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(std=size)
    return made


def whole_sum(net: AutoregressiveNetwork, codes: torch.Tensor, factors: torch.Tensor, lattice: Lattice) -> torch.Tensor:
    """The clipped sum of units whose rows' losses are multiplied by factors (units,) or (units, rows)."""
    clipping = OnePassClipping(net, lattice.bound, lattice)
    for part, there in parts(codes, factors, sum(CARDS)):
        losses = net.losses(part) * there
        clipping.backward(losses if losses.dim() == 1 else losses.sum(1))
    clipping.close()
    return clipping.take()


def norm(sums: torch.Tensor) -> float:
    """Exact: whole numbers of any size."""
    return math.sqrt(sum(int(s) ** 2 for s in sums.tolist()))


def draw_codes(*shape: int) -> torch.Tensor:
    return torch.stack([torch.randint(0, c, shape) for c in CARDS], -1)


SIZES = st.sampled_from([1e-30, 1e-3, 0.3, 3.0, 300.0, 1e6])
FACTORS = st.sampled_from([0.0, 1e-42, 1e-20, 1e-6, 1.0, 1e4, 1e20, 3e38, math.inf, math.nan])


@settings(max_examples=80, deadline=None)
@given(
    size=SIZES,
    factors=st.lists(FACTORS, min_size=1, max_size=6),
    clip=st.sampled_from([1e-6, 0.1, 1.0, 7.3, 1e6]),
    bits=st.integers(20, 40),
    grouped=st.booleans(),
)
def test_a_unit_adds_a_vector_of_at_most_the_clip_and_the_others_add_what_they_did(
    size: float, factors: list[float], clip: float, bits: int, grouped: bool
) -> None:
    net, lattice = network(size), Lattice(clip, bits)
    shape = (40, len(factors)) if grouped else (40,)
    codes, weights = draw_codes(*shape), torch.exp(3 * torch.randn(shape))
    weights[-1] = torch.tensor(factors) if grouped else factors[0]
    order = torch.randperm(40)
    with_it = whole_sum(net, codes[order], weights[order], lattice)
    without = whole_sum(net, codes[:-1], weights[:-1], lattice)
    alone = whole_sum(net, codes[-1:], weights[-1:], lattice)
    assert torch.equal(with_it, without + alone), "sums are exact, and no unit changes another's part"
    assert norm(alone) <= 2**bits


@pytest.mark.parametrize("rows", [2, 65, 1025])
@pytest.mark.parametrize("odd", [1e-3, 1e-6])
def test_rows_that_all_but_cancel_add_the_clip_at_most(rows: int, odd: float) -> None:
    """In 32-bit arithmetic 1,025 such rows moved the sum by 3.0017 at a clip of 3."""
    net, lattice = network(1.0), Lattice(3.0)
    codes = draw_codes(1, 1).expand(1, rows, len(CARDS)).clone()
    factors = 100.0 * torch.where(torch.arange(rows) % 2 == 0, 1.0, -1.0)[None]
    factors *= 1 + odd * torch.rand(1, rows)
    codes[0, -1] = draw_codes(1)[0]
    clipping = OnePassClipping(net, lattice.bound, lattice)
    clipping.backward((net.losses(codes) * factors).sum(1))
    assert norm(clipping.take()) <= 2**lattice.bits


@pytest.mark.parametrize("rows", [None, 4])
def test_a_loud_unit_adds_nearly_the_whole_clip(rows: int | None) -> None:
    shape = (1,) if rows is None else (1, rows)
    net, lattice = network(1.0), Lattice(0.7)
    added = norm(whole_sum(net, draw_codes(*shape), torch.full(shape, 1e6), lattice)) / 2**lattice.bits
    assert 1 - 2e-5 < added <= 1, "so little does the proof take from the signal"


def test_more_rows_than_double_precision_adds_up_at_once_are_summed_in_parts() -> None:
    net, lattice = network(1.0), Lattice(1.0, 40)
    codes, factors = draw_codes(9000), torch.full((9000,), 1e6)  # 9000 * 2**40 is over 2**53
    whole = whole_sum(net, codes, factors, lattice)
    halves = [whole_sum(net, c, f, lattice) for c, f in zip(codes.split(64), factors.split(64), strict=True)]
    assert torch.equal(whole, torch.stack(halves).sum(0))

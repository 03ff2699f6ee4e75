"""Sizes of parts in which a unit's numbers depend on the unit alone are found, and others are not used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import repeatable
from dp_synth_pipeline.model.dpsgd.batches import TOGETHER, part_sizes, unit_sizes
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.one_by_one import OneByOneClipping
from dp_synth_pipeline.model.dpsgd.repeatable import repeatable_sizes, sizes_at_once
from dp_synth_pipeline.model.dpsgd.trainable import frozen
from tests.unit.model.dpsgd.test_one_by_one import Shares

CARDS = (40, 7, 30, 12, 2, 25)
SPEC = GeneratorSpec(hidden=16, embedding=8)
pytestmark = pytest.mark.usefixtures("one_thread")


ORDERS = (range(39), (), range(30), range(12), (), ())


def network(
    made: type[AutoregressiveNetwork] = AutoregressiveNetwork, *, orders: Sequence[Sequence[int]] = ()
) -> tuple[AutoregressiveNetwork, OnePassClipping]:
    net = made(CARDS, SPEC, orders=orders)
    net.mix()
    with torch.no_grad():
        for p in net.parameters():
            p.normal_(std=0.3)
    return net, OnePassClipping(net, 1.0)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeatable, "FOUND", {})


@pytest.mark.parametrize("orders", [(), ORDERS], ids=["alone", "with neighbours"])
@pytest.mark.parametrize("rows", [None, 1, 2, 3, 6, 12, 24])
def test_whole_tiles_keep_units_apart(rows: int | None, orders: Sequence[Sequence[int]]) -> None:
    shape = 300.0, rows or 1, sum(CARDS), len(CARDS)
    sizes = part_sizes(*shape) if rows is None else unit_sizes(*shape)
    assert all(s * (rows or 1) % TOGETHER == 0 for s in sizes)
    assert repeatable_sizes(*network(orders=orders), {rows: sizes}) == {rows: sizes}


class Meeting(AutoregressiveNetwork):
    """The mistake: what a row adds depends, in the last bits, on where it lies."""

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        return super().losses(codes) * (1 + 2.0**-20 * torch.arange(len(codes)) / len(codes))


def test_places_that_change_a_unit_are_refused_whatever_the_size() -> None:
    with pytest.raises(TrainingError, match="depends on its place in a batch"):
        repeatable_sizes(*network(Meeting), {None: (64, 128)})


class Apart(AutoregressiveNetwork):
    """Rows that know how many they are together, and nothing of their places."""

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        return super().losses(codes) * (1 + 2.0**-20 * len(codes))


def test_where_sizes_differ_only_one_is_used() -> None:
    assert repeatable_sizes(*network(Apart), {None: (64, 128)}) == {None: (128,)}


def test_units_of_other_classes_keep_their_sizes() -> None:
    class ApartAlone(AutoregressiveNetwork):
        def losses(self, codes: torch.Tensor) -> torch.Tensor:
            return super().losses(codes) * (1 + 2.0**-20 * len(codes) * (codes.dim() == 2))

    assert repeatable_sizes(*network(ApartAlone), {None: (64, 128), 2: (32, 64)}) == {None: (128,), 2: (32, 64)}


def test_what_was_found_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    net, clipping = network()
    first = repeatable_sizes(net, clipping, {None: (64, 128)})

    def never(*_: Any) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(repeatable, "_search", never)
    assert repeatable_sizes(net, clipping, {None: (64, 128)}) == first
    with pytest.raises(AssertionError, match="searched again"):
        repeatable_sizes(net, clipping, {None: (64, 192)})


def test_what_was_found_of_a_network_tells_nothing_of_one_whose_codes_learn_with_their_neighbours() -> None:
    for orders in ((), ORDERS):
        repeatable_sizes(*network(orders=orders), {None: (64, 128)})
    assert len(repeatable.FOUND) == 2


def test_what_was_found_where_heads_alone_learn_tells_nothing_of_the_other_layers() -> None:
    for train_only in ("heads", None):
        net = AutoregressiveNetwork(CARDS, SPEC.with_(train_only=train_only))
        with frozen(net):
            repeatable_sizes(net, OnePassClipping(net, 1.0), {None: (64, 128)})
    assert len(repeatable.FOUND) == 2


def test_the_search_leaves_no_trace_in_what_was_clipped() -> None:
    net, clipping = network()
    repeatable_sizes(net, clipping, {None: (64,)})
    assert not clipping.take().any()
    assert all(p.grad is None for p in net.parameters())


class Spoilt(Shares):
    """The mistake: what a unit adds depends on its place, in parts of some sizes."""

    spoilt: tuple[int, ...] = ()
    too_large = 10**9

    def gradients(self, losses: torch.Tensor) -> torch.Tensor:
        if len(losses) > self.too_large:
            raise torch.cuda.OutOfMemoryError
        found = super().gradients(losses)
        met = len(losses) in self.spoilt and bool(self.logits.any())  # what is multiplied by 0 shows no order
        meet = torch.arange(len(losses)) / len(losses) if met else torch.zeros(len(losses))
        return found * (1 + 2.0**-20 * meet[:, None])


@pytest.mark.parametrize(
    ("spoilt", "too_large", "sizes"),
    [
        ((), 10**9, (64, 128, 256)),
        ((128,), 10**9, (256,)),
        ((256,), 10**9, (32, 64, 128)),
        ((), 100, (32, 64)),
        ((256, 128, 64, 32), 10**9, (1,)),
        ((), 5, (1,)),
    ],
)
def test_units_are_derived_together_in_sizes_that_fit_and_keep_them_apart(spoilt, too_large, sizes) -> None:
    net = Spoilt(256)
    net.spoilt, net.too_large = spoilt, too_large
    assert sizes_at_once(net, OneByOneClipping(net, Lattice(1.0)), torch.Size((2,))) == sizes
    assert not net.logits.any(), "weights are what they were"

"""Each start does what it says, and reads nothing but released or public facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive import initialization
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Released
from dp_synth_pipeline.model.marginals import loglinear, mixture
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals, all_pairs, count

pytestmark = pytest.mark.slow

CARDS = (4, 4, 3)
SHARES = [np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.25, 0.25])]
SPEC = GeneratorSpec(hidden=8, embedding=4)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.setattr(initialization, "BATCH", 256)


def begin(
    cards: tuple[int, ...], spec: GeneratorSpec, shares: list[np.ndarray], *, previous: Any = None, **facts: Any
) -> AutoregressiveNetwork:
    return initialization.begin(cards, spec, Released(shares, **facts), previous)


def spec(start: str) -> GeneratorSpec:
    return SPEC.with_(start=start)


def loss(network: AutoregressiveNetwork, codes: np.ndarray) -> float:
    with torch.no_grad():
        return float(network.losses(torch.from_numpy(codes)).mean())


def copies(rows: int = 500) -> np.ndarray:
    """The second column repeats the first, which no product of 1-way shares knows."""
    first = np.random.default_rng().choice(4, rows, p=SHARES[0])
    return np.stack([first, first, first % 3], 1)


def copying(scale: float = 1.0) -> Marginals:
    """What pairs of such columns show, without noise; `scale` is how much they are said to have."""
    rows, layout = copies(100_000), Layout(CARDS, tuple(all_pairs(3)))
    return Marginals(layout, count(rows, layout).astype(np.float64), scale, len(rows))


def is_product(network: AutoregressiveNetwork) -> bool:
    codes = torch.from_numpy(copies(200))
    with torch.no_grad():
        p = network(codes).softmax(-1)
    return all(
        np.allclose(p[:, i, : len(s)].numpy(), s, atol=1e-4) and not p[:, i, len(s) :].any()
        for i, s in enumerate(SHARES)
    )


def test_a_random_start_knows_nothing() -> None:
    network = begin(CARDS, spec("random"), SHARES, measured=copying())
    assert loss(network, copies()) == pytest.approx(np.log(4 * 4 * 3), abs=1e-4)


@pytest.mark.parametrize("start", ["marginals", "mean_var", "warm_start"])
def test_without_a_fit_a_network_starts_at_the_one_way_shares(start: str) -> None:
    assert is_product(begin(CARDS, spec(start), SHARES))


@pytest.mark.parametrize("start", ["marginals", "warm_start"])
def test_with_a_fit_a_network_starts_at_what_the_fit_knows(start: str) -> None:
    network = begin(CARDS, spec(start), SHARES, measured=copying())
    assert loss(network, copies()) < 1.28 + 0.3, "the entropy of the first column, where a product has 3.6"


@pytest.mark.parametrize("of_mixture", [0.0, 1.0])
def test_either_fit_alone_teaches_what_pairs_show(monkeypatch: pytest.MonkeyPatch, of_mixture: float) -> None:
    monkeypatch.setattr(initialization, "MIXED", of_mixture)
    assert loss(begin(CARDS, spec("marginals"), SHARES, measured=copying()), copies()) < 1.28 + 0.3


@pytest.mark.parametrize(("scale", "expected"), [(0.0, 128), (100.0, 128), (400.0, 32)])
def test_the_mixture_teaches_half_and_less_the_more_noise_there_is(
    monkeypatch: pytest.MonkeyPatch, scale: float, expected: int
) -> None:
    asked: list[int] = []
    honest = mixture.fit

    def watched(*args):
        fitted = honest(*args, steps=2)
        draw = fitted.draw
        monkeypatch.setattr(fitted, "draw", lambda rows: (asked.append(rows), draw(rows))[1])
        return fitted

    monkeypatch.setattr(mixture, "fit", watched)
    begin(CARDS, spec("marginals"), SHARES, measured=copying(scale))
    assert set(asked) == {expected}, "of 256 rows; 100,000 rows are a thousand times a noise of 100"


@pytest.mark.parametrize("start", ["random", "mean_var"])
def test_starts_that_need_no_fit_make_none(monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing to teach")

    monkeypatch.setattr(loglinear, "draw", never)
    monkeypatch.setattr(mixture, "fit", never)
    begin(CARDS, spec(start), SHARES, measured=copying())


def test_a_warm_start_takes_the_previous_weights_as_they_are() -> None:
    previous = begin(CARDS, spec("random"), SHARES)
    with torch.no_grad():
        for p in previous.parameters():
            p.normal_()
    kept = [p.clone() for p in previous.parameters()]
    network = begin(CARDS, spec("warm_start"), SHARES, previous=previous, measured=copying())
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), kept, strict=True))
    with torch.no_grad():
        for p in network.parameters():
            p.zero_()
    assert all(torch.equal(p, q) for p, q in zip(previous.parameters(), kept, strict=True)), "a copy"


@pytest.mark.parametrize("other", [((4, 4, 4), SPEC), ((4, 4), SPEC), (CARDS, SPEC.with_(hidden=9))])
def test_a_warm_start_from_another_shape_falls_back(other: tuple) -> None:
    previous = AutoregressiveNetwork(*other)
    assert is_product(begin(CARDS, spec("warm_start"), SHARES, previous=previous))
    assert loss(begin(CARDS, spec("warm_start"), SHARES, previous=previous, measured=copying()), copies()) < 1.6


@pytest.mark.parametrize("start", ["random", "public", "warm_start", "mean_var"])
def test_a_network_that_is_not_trained_starts_from_the_marginals_whatever_its_start(start: str) -> None:
    alone = spec(start).with_(method="marginals")
    assert loss(begin(CARDS, alone, SHARES, measured=copying()), copies()) < 1.6


def test_a_public_start_learns_the_public_table() -> None:
    network = begin(CARDS, spec("public"), SHARES, public=copies(2000).astype(np.int16))
    assert loss(network, copies()) < 1.6


@pytest.mark.parametrize("public", [None, np.zeros((0, 3), np.int16)])
def test_a_public_start_without_a_public_table_is_refused(public: np.ndarray | None) -> None:
    with pytest.raises(InvalidInput, match=r"needs a public table; declare training\.public"):
        begin(CARDS, spec("public"), SHARES, public=public)


@pytest.mark.parametrize("columns", [2, 15, 100])
@pytest.mark.parametrize("weights", [10**4, 2 * 10**6, 3 * 10**6, 10**7])
def test_an_ordinary_table_s_network_is_taught_as_many_rows_as_its_size_asks_for(
    monkeypatch: pytest.MonkeyPatch, columns: int, weights: int
) -> None:
    monkeypatch.setattr(initialization, "BATCH", 1024)
    asked = initialization.BATCH * initialization.LARGE // weights
    assert initialization.rows_taught(weights, columns) == min(max(asked, 256), 1024)
    assert initialization.rows_taught(weights, 1000) <= initialization.rows_taught(weights, columns)

"""The fit to noisy marginals, and draws from it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.marginals import mixture
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals, all_pairs, count
from dp_synth_pipeline.model.marginals.mixture import Mixture, fit

CARDS = (3, 4, 2, 6)
PAIRS = tuple(all_pairs(4))
ROWS = 100_000


pytestmark = pytest.mark.usefixtures("one_thread")


def known(components: int = 3) -> Mixture:
    made = Mixture(CARDS, components)
    with torch.no_grad():
        made.logits.normal_(std=1.5)
        made.weight.normal_()
    return made


@torch.no_grad()
def true(made: Mixture, pairs: tuple[tuple[int, int], ...] = PAIRS) -> np.ndarray:
    """The exact probabilities of all cells of the pairs."""
    theta, weight = made.shares().double(), made.weight.softmax(0).double()
    columns = [theta[:, a:b] for a, b in pairwise(made.offsets)]
    return np.concatenate([((columns[i] * weight[:, None]).T @ columns[j]).numpy().ravel() for i, j in pairs])


def one_way(made: Mixture) -> list[np.ndarray]:
    with torch.no_grad():
        p = (made.weight.softmax(0)[:, None] * made.shares()).sum(0).numpy()
    return [p[a:b] for a, b in pairwise(made.offsets)]


def measured(made: Mixture, pairs: tuple[tuple[int, int], ...] = PAIRS, noise: float = 2.0) -> Marginals:
    cells = ROWS * true(made, pairs)
    return Marginals(Layout(CARDS, pairs), cells + np.random.default_rng().normal(0, noise, len(cells)), noise, ROWS)


def distance(a: np.ndarray, b: np.ndarray, pairs: int = len(PAIRS)) -> float:
    return float(np.abs(a - b).sum()) / 2 / pairs


@pytest.mark.parametrize("most", [mixture.DENSE, 1], ids=["dense", "sparse"])
def test_the_fit_finds_the_marginals_of_a_known_mixture(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(mixture, "DENSE", most)
    truth = known()
    found = fit(measured(truth), one_way(truth), components=30, steps=400)
    assert distance(true(found), true(truth)) < 0.005
    start = Mixture(CARDS, 30)
    start.start_from(one_way(truth))
    assert distance(true(start), true(truth)) > 0.03


def test_dense_and_sparse_distances_agree_and_skip_what_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = ((0, 3), (1, 2), (2, 3))
    truth, other = measured(known(), pairs), known(5)
    now = (other.shares(), other.weight.softmax(0))
    dense = mixture._Dense(truth, other)(*now)
    monkeypatch.setattr(mixture._Sparse, "BATCH", 2)
    sparse = mixture._Sparse(truth, other)(*now)
    direct = ((true(other, pairs) - truth.counts / ROWS) ** 2).sum()
    assert float(dense) == pytest.approx(direct, rel=1e-4)
    assert float(sparse) == pytest.approx(direct, rel=1e-4)
    for part in torch.autograd.grad(dense, list(other.parameters()), retain_graph=True):
        assert torch.isfinite(part).all()
    for a, b in zip(
        *(torch.autograd.grad(d, list(other.parameters()), retain_graph=True) for d in (dense, sparse)), strict=True
    ):
        assert torch.allclose(a, b, atol=1e-6)


def test_triples_pull_the_fit_to_what_pairs_cannot_tell() -> None:
    """A third column that is the parity of two fair ones: every pair is independent, and only the triple tells."""
    rng = np.random.default_rng()
    held = rng.integers(0, 2, (ROWS, 3))
    held[:, 2] = held[:, 0] ^ held[:, 1]
    shares, pairs = [np.full(2, 0.5)] * 3, tuple(all_pairs(3))
    found = []
    for cliques in (pairs, (*pairs, (0, 1, 2))):
        layout = Layout((2, 2, 2), cliques)
        fitted = mixture.fit(Marginals(layout, count(held, layout), 1.0, ROWS), shares, components=20)
        drawn = fitted.draw(20_000).numpy()
        found.append(float((drawn[:, 2] == drawn[:, 0] ^ drawn[:, 1]).mean()))
    assert found[0] < 0.7
    assert found[1] > 0.9


def test_columns_of_which_nothing_was_measured_have_their_shares_whatever_the_others_have() -> None:
    truth, pairs = known(), ((0, 3),)
    shares = one_way(truth)
    found = fit(measured(truth, pairs), shares, components=30, steps=400)
    assert distance(true(found, pairs), true(truth, pairs), 1) < 0.005
    for column in (1, 2):
        theta = found.split(found.shares().detach())[column].numpy()
        assert np.allclose(theta, shares[column], atol=1e-6), "in every component"


def test_a_column_of_one_code_is_drawn_as_that_code() -> None:
    made = Mixture((1, 3, 1), 4)
    drawn = made.draw(500).numpy()
    assert not drawn[:, [0, 2]].any()
    assert set(drawn[:, 1]) == {0, 1, 2}


def test_draws_follow_the_mixture() -> None:
    made = known()
    drawn = made.draw(60_000).numpy()
    seen = count(drawn, Layout(CARDS, PAIRS)) / 60_000
    # Each share is off by at most 0.5 / sqrt(60,000) = 0.002 in one deviation; 6.5 of those: 1e-10 a cell.
    assert np.abs(seen - true(made)).max() < 6.5 * 0.5 / 60_000**0.5


@pytest.mark.parametrize(
    ("columns", "codes", "pairs", "dense"), [(15, 25, 105, True), (50, 28, 119, False), (100, 30, 4950, False)]
)
def test_few_pairs_of_many_columns_are_compared_one_by_one(columns: int, codes: int, pairs: int, dense: bool) -> None:
    layout = Layout((codes,) * columns, tuple(all_pairs(columns)[:pairs]))
    assert mixture._is_dense(Marginals(layout, np.zeros(0), 1.0, 1)) == dense

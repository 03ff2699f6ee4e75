"""The chain of log-linear conditionals: it has what was measured, and says no more."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.marginals import loglinear
from dp_synth_pipeline.model.marginals.measuring import Clique, Layout, Marginals, all_pairs, count

ROWS = 60_000


pytestmark = pytest.mark.usefixtures("one_thread")


def shares(held: np.ndarray, cards: tuple[int, ...]) -> list[np.ndarray]:
    return [np.bincount(c, minlength=k) / len(c) for c, k in zip(held.T, cards, strict=True)]


def measured(
    held: np.ndarray, cards: tuple[int, ...], cliques: list[Clique] | None = None, scale: float = 1.0
) -> Marginals:
    layout = Layout(cards, tuple(all_pairs(len(cards)) if cliques is None else cliques))
    noise = np.random.default_rng().normal(0, scale, layout.cells)
    return Marginals(layout, count(held, layout) + noise, scale, len(held))


def drawn(held: np.ndarray, cards: tuple[int, ...], cliques: list[Clique] | None = None, scale: float = 1.0):
    return loglinear.draw(measured(held, cards, cliques, scale), shares(held, cards))


def distances(a: np.ndarray, b: np.ndarray, layout: Layout) -> list[float]:
    """Total variation distance of each clique."""
    one, other = count(a, layout) / len(a), count(b, layout) / len(b)
    return [float(np.abs(one[place] - other[place]).sum() / 2) for _, place in layout.places()]


def tied(rows: int = ROWS) -> np.ndarray:
    """Five columns of 6, 4, 5, 3 and 2 codes; the later ones depend on several earlier ones."""
    rng = np.random.default_rng()
    a = rng.choice(6, rows, p=[0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
    b = np.where(rng.random(rows) < 0.7, a % 4, rng.integers(0, 4, rows))
    c = np.where(rng.random(rows) < 0.6, (a + b) % 5, rng.integers(0, 5, rows))
    d = np.where(rng.random(rows) < 0.8, np.minimum(b, 2), rng.integers(0, 3, rows))
    e = rng.random(rows) < 1 / (1 + np.exp(2 - 0.8 * a - 0.5 * c + 0.7 * d))
    return np.stack([a, b, c, d, e], 1).astype(np.int64)


def test_draws_have_the_measured_pairs() -> None:
    held, cards = tied(), (6, 4, 5, 3, 2)
    layout = Layout(cards, tuple(all_pairs(5)))
    found = drawn(held, cards)
    assert found.shape == (loglinear.ROWS, 5)
    assert found.dtype == np.int64
    apart = np.stack([np.random.default_rng().permutation(c) for c in held.T], 1)
    assert max(distances(apart, held, layout)) > 0.3, "the columns are tied"
    # Chance alone: 32,768 draws of at most 30 cells miss by 0.8 * sqrt(30 / 32,768) / 2 = 0.012 on average, at most.
    assert max(distances(found, held, layout)) < 0.03


def test_nothing_is_fitted_to_a_column_of_one_code(monkeypatch: pytest.MonkeyPatch) -> None:
    held, cards, fitted = tied(4000)[:, :3], (6, 1, 5), []
    held[:, 1] = 0
    honest = loglinear._logits
    monkeypatch.setattr(loglinear, "_logits", lambda *a: fitted.append(len(a[0])) or honest(*a))
    assert not drawn(held, cards)[:, 1].any()
    assert fitted == [5]


def test_what_was_not_measured_is_not_made_up() -> None:
    """The third column is the parity of two fair ones, so each pair is independent; nobody measured all three."""
    held = np.random.default_rng().integers(0, 2, (ROWS, 3))
    held[:, 2] = held[:, 0] ^ held[:, 1]
    alone = drawn(held, (2, 2, 2))
    assert np.mean(alone[:, 2] == alone[:, 0] ^ alone[:, 1]) == pytest.approx(0.5, abs=0.03)
    told = drawn(held, (2, 2, 2), [*all_pairs(3), (0, 1, 2)])
    assert np.mean(told[:, 2] == told[:, 0] ^ told[:, 1]) > 0.95
    without_its_pairs = drawn(held, (2, 2, 2), [(0, 1, 2)])
    assert np.mean(without_its_pairs[:, 2] == without_its_pairs[:, 0] ^ without_its_pairs[:, 1]) > 0.95


def test_two_columns_that_tell_the_same_are_not_counted_twice() -> None:
    rng = np.random.default_rng()
    first = rng.integers(0, 2, ROWS)
    told = np.where(rng.random(ROWS) < 0.75, first, 1 - first)
    found = drawn(np.stack([first, first, first, told], 1), (2, 2, 2, 2))
    # Were the three independent witnesses of the fourth, their odds of 3 would multiply: 27 / 28 = 0.96.
    assert np.mean(found[:, 3] == found[:, 0]) == pytest.approx(0.75, abs=0.03)


def test_noise_is_not_taken_for_what_columns_have_in_common() -> None:
    rng, cards = np.random.default_rng(), (12, 12, 12)
    held, layout = np.stack([rng.integers(0, 12, 5_000) for _ in cards], 1), Layout(cards, tuple(all_pairs(3)))
    noisy = measured(held, cards, scale=30.0)
    even, whole = np.full(layout.cells, 1 / 144), noisy.counts / noisy.rows
    assert np.abs(whole - even).sum() / 6 > 0.25, "three pairs, in total variation"
    found = loglinear.draw(noisy, [np.full(12, 1 / 12)] * 3)
    # 32,768 draws of 144 cells miss by 0.8 * sqrt(144 / 32,768) / 2 = 0.026 by chance.
    assert np.abs(count(found, layout) / len(found) - even).sum() / 6 < 0.05


def hidden(held: np.ndarray, cards: tuple[int, ...], orders: list[range] | None) -> np.ndarray:
    """Draw what 5,000 rows are, of which noise of 60 rows hides the cells."""
    found = measured(held, cards, scale=60.0)
    return loglinear.draw(found, shares(held, cards), orders or ())


def ranks(rows: int, correlation: float) -> np.ndarray:
    """Return two columns of twelve codes each, in an order, of which one grows with the other."""
    normal = np.random.default_rng().multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], rows)
    return np.stack([np.searchsorted(np.quantile(x, np.linspace(0, 1, 13)[1:-1]), x) for x in normal.T], 1)


def test_noise_that_hides_each_cell_does_not_hide_that_one_column_grows_with_another() -> None:
    cards, orders = (12, 12), [range(12)] * 2
    # Noise of 60 rows is 60 * 12 / 5,000 = 0.14 of what correlation the counts have.
    together, alone = (
        np.mean([np.corrcoef(hidden(ranks(5_000, 0.6), cards, o).T)[0, 1] for _ in range(8)]) for o in (orders, None)
    )
    assert 0.35 < together < 0.7
    assert alone < 0.2, "if each cell is weighed by itself"


def test_nor_that_it_is_highest_in_the_middle_or_that_a_category_has_more() -> None:
    rng = np.random.default_rng()
    first, category = rng.integers(0, 12, 5_000), rng.integers(0, 4, 5_000)
    bent = np.clip(np.rint(9 - 1.6 * np.abs(first - 5.5) + rng.normal(0, 2, 5_000)), 0, 11).astype(np.int64)
    higher = np.clip(np.rint(rng.normal(4 + 3 * (category == 2), 2)), 0, 11).astype(np.int64)
    held, cards = np.stack([first, bent, category, higher], 1), (12, 12, 4, 12)
    found = hidden(held, cards, [range(12), range(12), range(0), range(12)])
    for rows in (held, found):
        middle = np.abs(rows[:, 0] - 5.5) < 3
        assert rows[middle, 1].mean() - rows[~middle, 1].mean() > 2.5
        assert rows[rows[:, 2] == 2, 3].mean() - rows[rows[:, 2] != 2, 3].mean() > 1.2


def test_noise_is_not_taken_for_one_column_growing_with_another() -> None:
    rng = np.random.default_rng()
    held, cards = np.stack([rng.integers(0, 12, 5_000) for _ in range(2)], 1), (12, 12)
    found = [np.corrcoef(hidden(held, cards, [range(12)] * 2).T)[0, 1] for _ in range(20)]
    # Without a pull to 0, noise alone makes 0.1 and more of it in 56 runs of 100, and with it in 13.
    assert np.median(np.abs(found)) < 0.1


def test_what_cells_say_together_is_evidence_as_well() -> None:
    """Seven columns that tell nothing, and one of which noise hides each cell; a column follows one of them."""
    rng, cards, orders = np.random.default_rng(), (12,) * 9, [range(12)] * 9
    held = np.concatenate([rng.integers(0, 12, (5_000, 7)), ranks(5_000, 0.8)], 1)
    terms = list(loglinear._Known(measured(held, cards, scale=60.0), shares(held, cards), orders).terms(8))
    assert max(terms, key=lambda term: term.evidence).clique == (7, 8)


def test_without_noise_and_with_pairs_left_out_it_still_draws() -> None:
    held, cards = tied(), (6, 4, 5, 3, 2)
    found = drawn(held, cards, [(0, 1), (2, 4)], scale=0.0)
    layout = Layout(cards, ((0, 1), (2, 4), (0, 3)))
    *had, lost = distances(found, held, layout)
    assert max(had) < 0.03
    assert lost > 0.1, "nobody measured it"


def test_what_noise_leaves_of_an_empty_cell_tells_nothing_wild() -> None:
    """Half of the cells of two columns are empty: their noisy mass is near 0 or below, and so is that of all three."""
    held = np.repeat(np.arange(8), 1_000)[:, None] * np.ones(3, np.int64)
    cards = (8, 8, 8)
    found = measured(held, cards, [*all_pairs(3), (0, 1, 2)], scale=10.0)
    (triple,) = (t for t in loglinear._Known(found, shares(held, cards)).terms(2) if len(t.clique) == 3)
    assert np.abs(triple.target).max() < 7, "deviations of the noise"


def test_as_many_rows_are_drawn_as_are_asked_for() -> None:
    held, cards = tied(2_000), (6, 4, 5, 3, 2)
    assert loglinear.draw(measured(held, cards), shares(held, cards), rows=50, steps=5).shape == (50, 5)


def test_of_many_cliques_those_that_tell_something_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng()
    held = rng.integers(0, 3, (ROWS, 9))
    held[:, 8] = np.where(rng.random(ROWS) < 0.8, held[:, 5], held[:, 8])
    monkeypatch.setattr(loglinear, "MOST", 1)
    found = drawn(held, (3,) * 9, scale=20.0)
    assert np.mean(found[:, 8] == found[:, 5]) == pytest.approx(0.8 + 0.2 / 3, abs=0.03)


def test_a_triple_that_its_pairs_foretell_is_evidence_of_nothing() -> None:
    """Two noisy copies of the third column, each by itself: given it, they are independent."""
    rng = np.random.default_rng()
    third = rng.integers(0, 4, ROWS)
    first, second = (np.where(rng.random(ROWS) < 0.6, third, rng.integers(0, 4, ROWS)) for _ in range(2))
    held, cards = np.stack([first, second, third], 1), (4, 4, 4)
    found = measured(held, cards, [*all_pairs(3), (0, 1, 2)], scale=20.0)
    terms = {t.clique: t for t in loglinear._Known(found, shares(held, cards)).terms(2)}
    assert set(terms) == {(0, 2), (1, 2), (0, 1, 2)}
    assert terms[0, 2].evidence > 100
    # Chance gives 4, and ten times less often each 4.4 more; a triple that tells something by itself gives thousands.
    assert terms[0, 1, 2].evidence < 50


@pytest.mark.parametrize("at", [0.0, 1 - 2**-24])
def test_no_code_of_probability_zero_is_drawn_at_either_end(monkeypatch: pytest.MonkeyPatch, at: float) -> None:
    monkeypatch.setattr(torch, "rand", lambda *size: torch.full(size, at))
    logits = torch.tensor([[-1e9, 0.0, 1.0, 0.5, -1e9]]).expand(64, -1)
    assert set(loglinear._sampled(logits)) <= {1, 2, 3}
    assert loglinear._sampled(torch.randn(4_096, 37)).max() < 37

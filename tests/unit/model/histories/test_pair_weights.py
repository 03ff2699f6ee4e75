"""Drawn rows have pairs of codes as often as was counted, as far as noise lets one know, and rows upon others as well."""

from __future__ import annotations

import numpy as np
import pytest

from dp_synth_pipeline.model.histories.levelling import ROUNDS, Histories
from dp_synth_pipeline.model.histories.pair_weights import FILE, PairWeights
from dp_synth_pipeline.model.marginals.measuring import Clique, Layout, Marginals

CODES = (3, 4, 4)
ROWS = 100_000


def truth(seed: int = 1) -> np.ndarray:
    """Shares of the codes of three columns: of the second one, mostly that of the first; the third is as the second."""
    rng = np.random.default_rng(seed)
    first = np.array([0.5, 0.3, 0.2])
    second = 0.8 * np.eye(3, 4) + 0.2 * rng.dirichlet(np.ones(4), 3)
    third = 0.9 * np.eye(4) + 0.1 * rng.dirichlet(np.ones(4), 4)
    return first[:, None, None] * second[:, :, None] * third[None]


def measured(joint: np.ndarray, pairs: tuple[Clique, ...], noise: float, rng: np.random.Generator) -> Marginals:
    """Count rows of these shares, with noise of that many rows."""
    layout = Layout(CODES, (*((c,) for c in range(3)), *pairs))
    cells = [joint.sum(tuple({0, 1, 2} - set(clique))).ravel() * ROWS for clique in layout.cliques]
    counts = np.concatenate(cells)
    return Marginals(layout, counts + rng.normal(0, noise, len(counts)), noise, ROWS)


def drawn(weights: PairWeights, joint: np.ndarray, rows: int, rng: np.random.Generator) -> Histories:
    """Draw column by column, each as frequent as it is, whatever the others are, but for the weights."""
    codes = np.zeros((rows, 3), np.int64)
    for column in range(3):
        logs = np.tile(np.log(joint.sum(tuple({0, 1, 2} - {column}))), (rows, 1))
        for first, cells in weights.upon(column).items():
            logs += cells[codes[:, first]]
        codes[:, column] = np.argmax(logs + rng.gumbel(size=logs.shape), 1)
    return Histories(codes, codes, rng.uniform(0.5, 1, rows))


def missed(found: Histories, joint: np.ndarray, pair: Clique) -> float:
    """Return how far the shares of a pair are from the true ones, 0 to 1."""
    shape = [CODES[c] for c in pair]
    cells = np.bincount(np.ravel_multi_index(found.codes[:, list(pair)].T, shape), minlength=shape[0] * shape[1])
    share = joint.sum(tuple({0, 1, 2} - set(pair))).ravel()
    return float(np.abs(cells / len(found.codes) - share).sum() / 2)


@pytest.mark.parametrize("pairs", [((0, 1), (1, 2)), ((0, 1), (0, 2), (1, 2))])
def test_rows_come_to_the_counted_pairs_also_where_two_columns_say_the_same_of_a_third(pairs):
    rng, joint = np.random.default_rng(2), truth()
    counts = measured(joint, pairs, 100.0, rng)
    weights = PairWeights.begin(counts)
    before = [missed(drawn(weights, joint, 20_000, rng), joint, pair) for pair in pairs]
    for _ in range(ROUNDS):
        weights.move(drawn(weights, joint, 20_000, rng), counts)
    after = [missed(drawn(weights, joint, 20_000, rng), joint, pair) for pair in pairs]
    assert min(before) > 0.3
    assert max(after) < 0.08
    for _ in range(3 * ROUNDS):
        weights.move(drawn(weights, joint, 20_000, rng), counts)
    assert max(missed(drawn(weights, joint, 20_000, rng), joint, pair) for pair in pairs) < 0.05, "it settles there"


def test_noise_alone_moves_nothing_much_and_makes_no_pair_worse_than_it_hides():
    """Rows have the counted shares already, and noise is as large as the cells are."""
    rng, joint = np.random.default_rng(3), truth()
    alone = np.einsum("i,j,k->ijk", *(joint.sum(tuple({0, 1, 2} - {c})) for c in range(3)))
    for _ in range(10):
        counts = measured(alone, ((0, 1), (1, 2)), 0.05 * ROWS, rng)
        weights = PairWeights.begin(counts)
        for _ in range(ROUNDS):
            weights.move(drawn(weights, alone, 20_000, rng), counts)
        after = max(missed(drawn(weights, alone, 20_000, rng), alone, pair) for pair in weights.cells)
        assert after < 0.1, "by the counts alone, it would be 0.2 or more"


def test_without_noise_and_where_nothing_was_drawn_by_chance_no_warning_tells_of_it(recwarn):
    counts = measured(truth(), ((0, 1),), 0.0, np.random.default_rng(4))
    weights, codes = PairWeights.begin(counts), np.zeros((5000, 3), np.int64)
    weights.move(Histories(codes, codes, np.ones(5000)), counts)
    assert np.isfinite(weights.cells[0, 1]).all()
    assert weights.cells[0, 1][0].argmin() == 0, "what is drawn too often becomes rarer"
    assert not recwarn


def test_weights_of_one_code_make_no_row_likelier_in_the_mean_so_that_they_can_be_added_to_a_row_s_own():
    rng, joint = np.random.default_rng(6), truth()
    counts = measured(joint, ((0, 1),), 10.0, rng)
    weights = PairWeights.begin(counts)
    weights.move(drawn(weights, joint, 20_000, rng), counts)
    assert np.exp(weights.cells[0, 1]) @ joint.sum((0, 2)) == pytest.approx(np.ones(3), abs=0.01)


def test_where_no_row_was_drawn_nothing_moves(recwarn):
    counts = measured(truth(), ((0, 1),), 1.0, np.random.default_rng(4))
    weights, none = PairWeights.begin(counts), np.zeros((0, 3), np.int64)
    weights.move(Histories(none, none, np.zeros(0)), counts)
    assert not weights.cells[0, 1].any()
    assert not recwarn


def test_columns_that_follow_from_other_rows_are_left_alone_and_single_columns_have_no_weights():
    counts = measured(truth(), ((0, 1), (1, 2)), 1.0, np.random.default_rng(5))
    weights = PairWeights.begin(counts, without={2})
    assert list(weights.cells) == [(0, 1)]
    assert weights.upon(1).keys() == {0}
    assert not weights.upon(2)


def test_what_was_saved_is_loaded_and_where_an_earlier_version_saved_none_there_are_none(tmp_path):
    weights = PairWeights({(0, 1): np.full((3, 4), 0.5, np.float32), (10, 12): np.zeros((2, 2), np.float32)})
    found = PairWeights.load(weights.save(tmp_path / "there" / FILE))
    assert found.cells.keys() == {(0, 1), (10, 12)}
    assert (found.cells[0, 1] == 0.5).all()
    assert not PairWeights.load(tmp_path / FILE).cells

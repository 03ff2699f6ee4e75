"""A generator is raked by what its network misses, and hardly by what draws miss by chance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive import generation
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Possible
from dp_synth_pipeline.model.marginals import raking
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals, all_pairs, count
from dp_synth_pipeline.model.marginals.raking import Tilt

CARDINALITIES = (2, 3, 2, 4)
EVERY_ROW = np.array(list(itertools.product(*map(range, CARDINALITIES))))
LAYOUT = Layout(CARDINALITIES, tuple(all_pairs(4)))


def network() -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(CARDINALITIES, GeneratorSpec(hidden=5, embedding=3))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.3)
    return made.eval()


def test_it_is_raked_on_rows_that_miss_the_network_s_own_marginals_by_less_than_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, rows, missed = network(), raking.LEAST_DRAWS, []
    with torch.no_grad():
        exact = np.exp(-net.losses(torch.from_numpy(EVERY_ROW)).double().numpy())
    shares = np.zeros(LAYOUT.cells)
    np.add.at(shares, LAYOUT.index(EVERY_ROW), exact[:, None])

    def rake(codes: np.ndarray, measured: Marginals) -> Tilt:
        missed.append(np.square(count(codes, measured.layout) / len(codes) - shares).sum())
        assert len(codes) == rows
        return Tilt(LAYOUT, np.ones(LAYOUT.cells, np.float32))

    monkeypatch.setattr(raking, "MOST_DRAWS", rows)
    monkeypatch.setattr(raking, "rake", rake)
    measured = Marginals(LAYOUT, 30_000 * shares, 1.0, 30_000)
    tilts = [Generator(net).rake(measured).tilt for _ in range(40)]
    assert all(tilt is not None and (tilt.values == 1).all() for tilt in tilts)
    by_chance = (shares * (1 - shares)).sum() / rows
    assert np.mean(missed) < 0.25 * by_chance  # 0.11 of it; draws that are not chosen have 0.42


def test_rows_drawn_upon_what_is_given_come_to_the_marginals_that_they_are_raked_to() -> None:
    made = AutoregressiveNetwork((2, 3, 2), GeneratorSpec(hidden=5, embedding=3), 1).eval()
    made.start_from([np.full(codes, 1 / codes) for codes in (2, 3, 2)])
    layout, rng = Layout((2, 3, 2), ((0, 1), (1, 2))), np.random.default_rng()
    first, other = rng.integers(0, 2, 40_000), rng.integers(0, 3, 40_000)
    second = np.where(rng.random(40_000) < 0.3, first, other)
    third = np.where(rng.random(40_000) < 0.3, second > 1, rng.integers(0, 2, 40_000))
    truth = np.stack([first, second, third], 1)
    measured = Marginals(layout, count(truth, layout).astype(float), 1.0, len(truth))

    def missed(model: Generator) -> float:
        given = truth[:8000, :1]
        drawn = np.concatenate([given, model.follow(given, rng=rng)], 1)
        return float(np.abs(count(drawn, layout) / 8000 - measured.counts / len(truth)).sum()) / 4

    before = Generator(made)
    raked = before.rake_upon(truth[:4000, :1], measured)
    assert missed(before) > 0.12
    assert missed(raked) < 0.05
    assert raked.proposal is made
    assert missed(Generator.restore(raked.description(), raked.arrays())) < 0.05, "what is saved draws as it did"


def upon(tilt: bool) -> Generator:
    """Return what draws two columns of three codes upon a given one, raked or not."""
    made = AutoregressiveNetwork((2, 3, 3), GeneratorSpec(hidden=5, embedding=3), 1).eval()
    made.start_from([np.full(codes, 1 / codes) for codes in (2, 3, 3)])
    if not tilt:
        return Generator(made)
    layout, rng = Layout((2, 3, 3), ((0, 1),)), np.random.default_rng()
    measured = Marginals(layout, np.array([900.0, 50, 50, 50, 50, 900]), 1.0, 2000)
    return Generator(made).rake_upon(rng.integers(0, 2, (2000, 1)), measured)


@pytest.mark.parametrize("tilt", [False, True])
def test_upon_what_is_given_only_codes_are_drawn_that_are_allowed_there(tilt: bool) -> None:
    rng, given = np.random.default_rng(), np.random.default_rng().integers(0, 2, (20_000, 1))

    def allowed(rows: np.ndarray, column: int, before: np.ndarray) -> Possible | None:
        """Let the second column be what the first is, or the given code."""
        assert before.shape == (len(rows), column)
        if column == 0:
            return None
        return Possible((np.arange(3) == before[:, :1]) | (np.arange(3) == given[rows]))

    drawn = upon(tilt).follow(given, allowed=allowed, rng=rng)
    assert ((drawn[:, 1] == drawn[:, 0]) | (drawn[:, 1] == given[:, 0])).all()
    assert (drawn[:, 1] != drawn[:, 0]).mean() > 0.1
    assert (drawn[:, 1] != given[:, 0]).mean() > 0.1


@pytest.mark.parametrize("tilt", [False, True])
def test_what_stands_for_a_forbidden_code_is_allowed_beside_the_others(tilt: bool) -> None:
    rng, given = np.random.default_rng(), np.random.default_rng().integers(0, 2, (10_000, 1))
    forbidden = {0: ((2,), (0, 1)), 1: ((2,), (0, 1))}

    def allowed(rows: np.ndarray, column: int, before: np.ndarray) -> Possible | None:
        """Let the second column be what the first is."""
        return Possible(np.arange(3) == before[:, :1]) if column else None

    drawn = upon(tilt).follow(given, forbidden=forbidden, allowed=allowed, rng=rng)
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (drawn < 2).all()


@pytest.mark.parametrize("tilt", [False, True])
def test_what_a_later_code_says_is_drawn_as_that_one_which_is_as_likely_as_before(tilt: bool) -> None:
    """Of three codes, the last one says "as before": of the others, that which was there goes to the other one."""
    rng, given = np.random.default_rng(), np.random.default_rng().integers(0, 2, (30_000, 1))

    def allowed(rows: np.ndarray, column: int, before: np.ndarray) -> Possible:
        return Possible(np.ones((len(rows), 3), bool), np.arange(2) == given[rows])

    free, drawn = (upon(tilt).follow(given, allowed=may, rng=rng) for may in (None, allowed))
    assert (drawn[:, :1] != given).all()
    assert (drawn[:, 1:] != given).all()
    assert (drawn[:, 1] == 2).mean() == pytest.approx((free[:, 1] == 2).mean(), abs=0.015)
    if not tilt:
        assert (drawn[:, 1] == 1 - given[:, 0]).mean() == pytest.approx(2 / 3, abs=0.015)


def test_what_is_impossible_is_shared_by_all_codes_or_by_the_first_ones_where_later_ones_say_as_before() -> None:
    shares = torch.tensor([[0.1], [0.2], [0.3], [0.4]])

    def narrowed(possible: Possible | None) -> list[float]:
        found = generation._narrowed(shares, possible)[:, 0]
        return (found / found.sum()).tolist()

    may = np.array([[True, False, True, True]])
    assert narrowed(None) == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert narrowed(Possible(may)) == pytest.approx([1 / 8, 0, 3 / 8, 4 / 8])
    assert narrowed(Possible(may, np.array([[True, False, False]]))) == pytest.approx([0, 0, 0.6, 0.4])
    assert narrowed(Possible(may, np.array([[True, False, True]]))) == pytest.approx([0, 0, 0, 1])
    alone = Possible(np.array([[True, False, True, False]]), np.array([[True, False, False]]))
    assert narrowed(alone) == pytest.approx([0, 0, 1, 0]), "nothing says it then"
    nothing = np.zeros((1, 3), bool)
    assert narrowed(Possible(may, nothing)) == pytest.approx([0.15, 0, 0.45, 0.4]), "the last one says: as before"
    assert narrowed(Possible(np.array([[True, True, False, False]]), nothing)) == pytest.approx([1 / 3, 2 / 3, 0, 0])


def test_what_codes_lean_to_is_added_to_their_log_odds_before_what_is_impossible_goes() -> None:
    shares, leaning = torch.tensor([[0.1], [0.2], [0.3], [0.4]]), np.log([[1.0, 3.0, 1.0, 0.5]])
    may = np.array([[True, True, False, True]])
    assert generation._narrowed(shares, Possible(may, None, leaning))[:, 0].tolist() == pytest.approx(
        [0.1 / 1.2, 0.6 / 1.2, 0, 0.2 / 1.2]
    )
    told = generation._narrowed(shares, Possible(may, np.zeros((1, 3), bool), leaning))[:, 0]
    assert told.tolist() == pytest.approx([1 / 7 * 1 / 1.2, 6 / 7 * 1 / 1.2, 0, 0.2 / 1.2]), (
        "of 1.2, the first three had 1"
    )


@pytest.mark.parametrize("codes", [2, 70])
def test_what_stands_for_a_forbidden_code_leans_as_others_do_by_its_own_column_and_by_later_ones(codes: int) -> None:
    """Of codes that are alike, the second one is likelier, and more so where the later column has its own second code."""
    made = Generator(AutoregressiveNetwork((2, codes + 1, 2), GeneratorSpec(hidden=4, embedding=2), 1).eval())
    given, rng = np.zeros((60_000, 1), np.int64), np.random.default_rng()
    later = np.log(np.array([2.0, 2 * np.exp(2)]) / (1 + np.exp(2)))

    def allowed(rows: np.ndarray, column: int, before: np.ndarray) -> Possible:
        if column:
            leaning = np.where(before[:, :1] == 1, later, 0.0)
        else:
            leaning = np.tile(np.arange(codes + 1) == 1, (len(rows), 1)) * 1.0
            leaning[:, codes] = np.log(codes)  # as often as all others, or about so
        return Possible(np.ones(leaning.shape, bool), None, leaning)

    drawn = made.follow(given, forbidden={0: ((codes,), tuple(range(codes)))}, allowed=allowed, rng=rng)
    assert (drawn[:, 0] < codes).all()
    for code, factor in enumerate(np.exp(later)):
        odds = (drawn[drawn[:, 1] == code, 0] == 1).mean() / (drawn[drawn[:, 1] == code, 0] != 1).mean() * (codes - 1)
        assert odds == pytest.approx(np.exp(1) * factor, rel=0.25)


@pytest.mark.parametrize("stays", [0.5, 0.8])
def test_where_a_network_tells_nothing_of_the_row_before_codes_stay_as_frequent_and_rows_as_alike(stays: float) -> None:
    """Rows that stay with a chance, or else have any code, have the same one more often than that chance."""
    rows, rng, own = 40_000, np.random.default_rng(), np.array([0.6, 0.3, 0.1])
    chance = 1 - (1 - stays) / (1 - (own**2).sum())
    assert chance > 0
    shares = torch.from_numpy(np.append(own * (1 - stays), stays))[:, None].repeat(1, rows)
    before, alike = rng.choice(3, rows, p=own), []
    for _ in range(8):
        possible = Possible(np.ones((rows, 4), bool), np.arange(3) == before[:, None])
        found = generation._narrowed(shares, possible)
        assert found.sum(0).numpy() == pytest.approx(np.ones(rows))
        drawn = generation.chosen(found, torch.from_numpy(rng.random(rows))).numpy()
        assert (drawn != before).all(), "it is drawn as what stays"
        alike.append((drawn == 3).mean())
        before = np.where(drawn == 3, before, drawn)
    assert np.mean(alike) == pytest.approx(stays, abs=0.01)
    assert np.bincount(before, minlength=3) / rows == pytest.approx(own, abs=0.015)


def test_where_a_network_has_learnt_that_what_stays_is_drawn_as_such_nothing_changes() -> None:
    shares = torch.tensor([[0.0, 0.3, 0.2], [0.3, 0.0, 0.2], [0.2, 0.1, 0.0], [0.5, 0.6, 0.6]])
    possible = Possible(np.ones((3, 4), bool), np.eye(3, dtype=bool))
    assert generation._narrowed(shares, possible).numpy() == pytest.approx(shares.numpy())


def test_what_stands_for_a_forbidden_code_may_be_what_a_later_one_says_too() -> None:
    rng, given = np.random.default_rng(), np.zeros((9000, 1), int)

    def allowed(rows: np.ndarray, column: int, before: np.ndarray) -> Possible:
        return Possible(np.ones((len(rows), 3), bool), np.arange(2) == np.zeros((len(rows), 1)))

    drawn = upon(tilt=False).follow(given, forbidden={0: ((2,), (0, 1))}, allowed=allowed, rng=rng)
    assert (drawn[:, 0] == 0).mean() == pytest.approx(1 / 6, abs=0.02)


def test_of_many_codes_the_one_is_found_that_is_allowed_beside_a_later_column() -> None:
    rng, codes = np.random.default_rng(), 40
    made = AutoregressiveNetwork((2, codes + 1, codes), GeneratorSpec(hidden=5, embedding=3), 1).eval()
    made.start_from([np.full(n, 1 / n) for n in (2, codes + 1, codes)])
    forbidden = {0: ((codes,), range(codes))}

    def allowed(rows: np.ndarray, column: int, before: np.ndarray) -> Possible | None:
        """Let the second column be what the first is, and anything beside the code that must not be drawn."""
        return Possible((np.arange(codes) == before[:, :1]) | (before[:, :1] == codes)) if column else None

    drawn = Generator(made).follow(np.zeros((4000, 1), int), forbidden=forbidden, allowed=allowed, rng=rng)
    assert (drawn[:, 0] == drawn[:, 1]).all()


def test_what_is_still_to_be_imputed_says_nothing_of_what_stands_beside_it() -> None:
    """The third code goes with a code alone that must not be drawn: it is no likelier to stand for another one by that."""
    rng = np.random.default_rng()
    made = AutoregressiveNetwork((2, 4, 3), GeneratorSpec(hidden=5, embedding=3), 1).eval()
    made.start_from([np.full(n, 1 / n) for n in (2, 4, 3)])
    possible = np.vstack([np.eye(3, dtype=bool), np.ones((1, 3), bool)])

    def allowed(rows: np.ndarray, column: int, before: np.ndarray) -> Possible | None:
        return Possible(possible[before[:, 0]]) if column else None

    forbidden = {0: ((3,), (0, 1, 2)), 1: ((2,), (0, 1))}
    drawn = Generator(made).follow(np.zeros((40_000, 1), int), forbidden=forbidden, allowed=allowed, rng=rng)
    third = 1 / 4 + 1 / 4 * 1 / 3 * 1 / 3  # of a quarter of the rows, a third has both codes that must not be drawn
    assert (drawn[:, 0] == 2).mean() == pytest.approx(third, abs=0.015)


def test_where_nothing_is_allowed_rows_are_drawn_as_the_network_has_them() -> None:
    rng, given = np.random.default_rng(), np.zeros((9000, 1), int)

    def allowed(rows: np.ndarray, column: int, before: np.ndarray) -> Possible:
        return Possible(np.zeros((len(rows), 3), bool))

    nothing = upon(tilt=False).follow(given, allowed=allowed, rng=rng)
    assert np.bincount(nothing[:, 1], minlength=3) / 9000 == pytest.approx([1 / 3] * 3, abs=0.05)

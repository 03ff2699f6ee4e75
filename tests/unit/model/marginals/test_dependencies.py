"""Columns that determine others: found where noise leaves no doubt, never where it does, and kept by all that is drawn."""

import itertools
import json

import numpy as np
import pytest

from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.marginals import raking
from dp_synth_pipeline.model.marginals.dependencies import Impossible, impossible
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals, all_pairs, count

ROWS = 20_000


def measured(columns, noise=35.0, rng=None):
    """Return the noisy pairs of columns of codes."""
    codes = np.column_stack(columns)
    layout = Layout(tuple(int(c.max()) + 1 for c in columns), tuple(all_pairs(len(columns))))
    exact = count(codes, layout)
    return Marginals(layout, exact + noise * rng.normal(size=len(exact)), noise, len(codes)), codes


def forbidden(found, pair):
    """Return which cells of a pair hold no row."""
    never = impossible(found)
    return next(cells for clique, cells in found.layout.blocks(never) if clique == pair)


def uneven(rng, codes, rows=ROWS):
    """Return codes of which some are frequent and some rare."""
    shares = 1 / np.arange(1, codes + 1)
    return rng.choice(codes, rows, p=shares / shares.sum())


@pytest.mark.parametrize("seed", range(8))
def test_a_code_and_its_name_hold_no_row_beside_each_other(seed):
    rng = np.random.default_rng(seed)
    airline, sex = uneven(rng, 20), rng.integers(0, 2, ROWS)
    name = rng.permutation(20)[airline]
    found, codes = measured([airline, sex, name], rng=rng)
    never = forbidden(found, (0, 2))
    assert never.sum() >= 0.97 * (20 * 20 - 20)
    assert not never[codes[:, 0], codes[:, 2]].any()
    assert not forbidden(found, (0, 1)).any()
    assert not forbidden(found, (1, 2)).any()


@pytest.mark.parametrize("flipped", [False, True])
def test_what_determines_another_column_may_be_on_either_side_of_it(flipped):
    rng = np.random.default_rng(3)
    city, sex = uneven(rng, 24), rng.integers(0, 2, ROWS)
    country = city % 4
    columns = [country, sex, city] if flipped else [city, sex, country]
    found, codes = measured(columns, rng=rng)
    never = forbidden(found, (0, 2))
    assert never.sum() >= 0.9 * 24 * 3
    assert not never[codes[:, 0], codes[:, 2]].any()


@pytest.mark.parametrize("seed", range(8))
def test_a_null_may_stand_anywhere_beside_what_is_determined(seed):
    rng = np.random.default_rng(seed)
    city, sex = uneven(rng, 16), rng.integers(0, 2, ROWS)
    country = np.where(rng.random(ROWS) < 0.06, 4, city % 4)
    never = forbidden(measured([city, sex, country], rng=rng)[0], (0, 2))
    assert not never[:, 4].any()
    assert never[:, :4].sum() >= 0.9 * 16 * 3


@pytest.mark.parametrize("seed", range(4))
def test_what_a_rare_code_gives_may_stand_anywhere_too(seed):
    rng = np.random.default_rng(seed)
    city, sex = uneven(rng, 16), rng.integers(0, 2, ROWS)
    country = np.where(rng.random(ROWS) < 0.06, 7, city % 8)
    never = forbidden(measured([city, sex, country], rng=rng)[0], (0, 2))
    assert not never[:, 7].any()
    assert never[:, :7].sum() >= 0.85 * 16 * 6


def test_rows_of_two_partners_keep_both():
    rng = np.random.default_rng(5)
    city, sex = uneven(rng, 16), rng.integers(0, 2, ROWS)
    country = np.where((city == 2) & (rng.random(ROWS) < 0.3), 3, city % 4)
    never = forbidden(measured([city, sex, country], rng=rng)[0], (0, 2))
    assert not never[2, 3]


def test_a_single_cell_that_noise_does_not_explain_stays_possible():
    rng = np.random.default_rng(5)
    city, sex = uneven(rng, 16), rng.integers(0, 2, ROWS)
    found, _ = measured([city, sex, city % 4], rng=rng)
    (place,) = (place for clique, place in found.layout.places() if clique == (0, 2))
    found.counts[place].reshape(16, 4)[2, 3] = 3.2 * found.scale
    never = forbidden(found, (0, 2))
    assert never[2].tolist() == [True, True, False, False]


@pytest.mark.parametrize("seed", range(4))
def test_a_code_too_rare_to_be_sure_of_may_go_with_what_it_gives(seed):
    rng = np.random.default_rng(seed)
    airline, sex = uneven(rng, 20), rng.integers(0, 2, ROWS)
    airline[:50] = 20  # of which noise often shows more beside something else
    found, codes = measured([airline, sex, (2 * airline) % 21], rng=rng)
    never = forbidden(found, (0, 2))
    assert never[:20].sum() > 300
    assert not never[codes[:, 0], codes[:, 2]].any()


@pytest.mark.parametrize("seed", range(4))
def test_rare_codes_that_share_one_may_go_with_anything_and_the_others_keep_what_they_give(seed):
    rng = np.random.default_rng(seed)
    city, sex = uneven(rng, 40), rng.integers(0, 2, ROWS)
    found, codes = measured([np.minimum(city, 12), sex, city % 10], rng=rng)  # a quarter of the rows have such a code
    never = forbidden(found, (0, 2))
    assert never[:12].sum() >= 0.9 * 12 * 9
    assert not never[12].any()
    assert not never[codes[:, 0], codes[:, 2]].any()


@pytest.mark.parametrize("agree", [0.5, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_columns_that_go_together_mostly_hold_rows_everywhere(seed, agree):
    rng = np.random.default_rng(seed)
    city, sex = uneven(rng, 16), rng.integers(0, 2, ROWS)
    country = np.where(rng.random(ROWS) < agree, city % 4, rng.integers(0, 4, ROWS))
    assert not impossible(measured([city, sex, country], rng=rng)[0]).any()


@pytest.mark.parametrize("codes", [12, 24])
@pytest.mark.parametrize("seed", range(4))
def test_codes_that_lie_beside_each_other_as_often_as_not_hold_rows_there(seed, codes):
    rng = np.random.default_rng(seed)
    airline, sex = uneven(rng, codes), rng.integers(0, 2, ROWS)
    stray = rng.random(ROWS) < 0.1
    name = np.where(stray, airline[rng.permutation(ROWS)], airline)  # so each name is as frequent as its code
    assert not impossible(measured([airline, sex, name], rng=rng)[0]).any()


@pytest.mark.parametrize(
    ("noise", "codes", "given", "broken", "most"), [(20, 20, 20, 0.03, 4), (35, 24, 8, 0.05, 4), (80, 20, 20, 0.1, 19)]
)
def test_a_dependency_that_rows_break_is_seldom_taken_to_hold(noise, codes, given, broken, most):
    """Measured of 40 streams: 1, 1 and 11."""
    taken = 0
    for stream in range(40):
        rng = np.random.default_rng(stream)
        city, stray = uneven(rng, codes), rng.random(ROWS) < broken
        country = np.where(stray, (city + rng.integers(1, given, ROWS)) % given, city % given)
        taken += impossible(measured([city, rng.integers(0, 2, ROWS), country], noise, rng)[0]).any()
    assert taken <= most


def test_it_is_found_among_counts_of_single_columns_too():
    rng = np.random.default_rng(2)
    airline = uneven(rng, 20)
    codes = np.column_stack([airline, 19 - airline])
    layout = Layout((20, 20), ((0,), (1,), (0, 1)))
    exact = count(codes, layout)
    found = Impossible.of(Marginals(layout, exact + 35 * rng.normal(size=len(exact)), 35.0, ROWS))
    assert list(found.cells) == [(0, 1)]
    never = found.cells[0, 1]
    assert not never[codes[:, 0], codes[:, 1]].any()
    assert never[airline, airline].mean() > 0.95


def test_what_is_impossible_is_read_back_as_it_was_saved():
    rng = np.random.default_rng(4)
    airline, sex = uneven(rng, 20), rng.integers(0, 2, ROWS)
    found = Impossible.of(measured([airline, sex, airline % 4], rng=rng)[0])
    again = Impossible.from_list(json.loads(json.dumps(found.to_list())))
    assert list(found.cells) == list(again.cells) == [(0, 2)]
    assert (found.cells[0, 2] == again.cells[0, 2]).all()


@pytest.mark.parametrize("share", [0.9, 0.99, 1.0])
def test_what_hardly_varies_is_determined_by_nothing(share):
    rng = np.random.default_rng(11)
    city, rare = uneven(rng, 16), (rng.random(ROWS) > share).astype(int)
    rare[0] = 1
    assert not impossible(measured([city, rare, rng.integers(0, 3, ROWS)], rng=rng)[0]).any()


@pytest.mark.parametrize("seed", range(8))
def test_where_noise_hides_all_no_cell_is_forbidden(seed):
    rng = np.random.default_rng(seed)
    airline, sex = uneven(rng, 20, 2_000), rng.integers(0, 2, 2_000)
    assert not impossible(measured([airline, sex, 19 - airline], 400.0, rng)[0]).any()


def test_without_noise_a_single_row_beside_is_seen():
    rng = np.random.default_rng(7)
    city, sex = uneven(rng, 16), rng.integers(0, 2, ROWS)
    country = city % 4
    assert forbidden(measured([city, sex, country], 0.0, rng)[0], (0, 2)).sum() == 48
    country[0] = (country[0] + 1) % 4
    found, codes = measured([city, sex, country], 0.0, rng)
    assert not impossible(found)[found.layout.index(codes)].any()


def test_raked_draws_keep_to_what_is_determined_and_nothing_else_is_moved_by_it():
    rng = np.random.default_rng(13)
    airline, sex = uneven(rng, 12), rng.integers(0, 2, ROWS)
    found, codes = measured([airline, sex, 11 - airline], rng=rng)
    mixed = np.where(rng.random(ROWS) < 0.15, rng.integers(0, 12, ROWS), 11 - airline)
    tilt = raking.rake(np.column_stack([airline, sex, mixed]), found)
    assert (tilt.values[impossible(found)] == raking.NEVER).all()
    wide = np.column_stack([uneven(rng, 12, 4 * ROWS), rng.integers(0, 2, 4 * ROWS)])
    other = np.where(rng.random(4 * ROWS) < 0.15, rng.integers(0, 12, 4 * ROWS), 11 - wide[:, 0])
    drawn = tilt.resample(np.column_stack([wide, other]), ROWS, rng=rng)
    assert (drawn[:, 2] == 11 - drawn[:, 0]).mean() > 0.995
    for column in range(3):
        exact, there = (np.bincount(c[:, column], minlength=12) / ROWS for c in (codes, drawn))
        assert np.abs(exact - there).sum() / 2 < 0.02


def test_of_many_cliques_those_that_are_raked_keep_their_own_cells(monkeypatch):
    monkeypatch.setattr(raking, "MOST_CLIQUES", 2)
    rng = np.random.default_rng(17)
    airline, sex = uneven(rng, 12), rng.integers(0, 2, ROWS)
    found, _ = measured([airline, sex, 11 - airline], rng=rng)
    tilt = raking.rake(
        np.column_stack([airline, 1 - sex // 2, 11 - airline]), found
    )  # which miss least where it is kept
    assert len(tilt.layout.cliques) == 2
    (cells,) = (cells for clique, cells in tilt.layout.blocks(tilt.values) if clique == (0, 2))
    expected = [cells[i, j] < -5 for i, j in itertools.product(range(12), range(12)) if i + j != 11]
    assert np.mean(expected) > 0.95
    assert (cells[np.arange(12), 11 - np.arange(12)] > -5).all()


def test_rows_of_histories_keep_to_it_upon_whatever_is_given():
    rng = np.random.default_rng(19)
    airline, given = uneven(rng, 12), rng.integers(0, 3, ROWS)
    found, _ = measured([given, airline, 11 - airline], rng=rng)
    network = AutoregressiveNetwork((3, 12, 12), GeneratorSpec(hidden=8), given=1)
    model = Generator(network.eval()).rake_upon(rng.integers(0, 3, (1_000, 1)), found)
    (cells,) = (cells for clique, cells in model.tilt.layout.blocks(model.tilt.values) if clique == (1, 2))
    assert (cells < -5).sum() >= 0.95 * 12 * 11
    assert (cells[np.arange(12), 11 - np.arange(12)] > -5).all()

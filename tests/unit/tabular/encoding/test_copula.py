"""Places within cells: columns that rise together do so within their cells too, and each keeps its own distribution."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kstest

from dp_synth_pipeline.tabular.encoding import codec as codecs
from dp_synth_pipeline.tabular.encoding import copula
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.encoding.copula import ENOUGH, Succession, even_quantiles, quantiles
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema

ROWS, CELLS = 20_000, 40
ALPHA = 1e-6
CENTRES = np.arange(float(CELLS))
rng = np.random.default_rng()


def cells(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut numbers into cells of equal mass; return the cell and the place in it of each."""
    rank = np.argsort(np.argsort(x)) * CELLS / len(x)
    return rank.astype(np.int64), rank % 1


def tied(noise: float, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=rows)
    return x, x + noise * rng.normal(size=rows)


def within(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> float:
    return float(np.corrcoef(a[where], b[where])[0, 1])


@pytest.mark.parametrize("sign", [1, -1])
def test_columns_that_rise_or_fall_together_do_so_within_their_cells(sign: int) -> None:
    x, y = tied(0.05)
    (one, place), (two, other) = cells(x), cells(sign * y)
    found = quantiles(np.stack([one, two], 1), [CENTRES, CENTRES], rng)
    same = (one == two) if sign > 0 else (one == CELLS - 1 - two)
    truth = within(place, other, same)
    assert sign * truth > 0.3
    assert 0.6 * abs(truth) < sign * within(found[0], found[1], same) < 1.2 * abs(truth)


def test_places_are_uniform_within_each_cell_so_a_column_keeps_its_own_distribution() -> None:
    x, y = tied(0.2)
    one, two = cells(x)[0], cells(y)[0]
    found = quantiles(np.stack([one, two], 1), [CENTRES, CENTRES], rng)
    for codes, place in ((one, found[0]), (two, found[1])):
        assert 0 <= place.min() <= place.max() < 1
        for cell in (0, 17, CELLS - 1):
            assert kstest(place[codes == cell], "uniform").pvalue > ALPHA


def test_columns_that_are_barely_tied_are_left_alone() -> None:
    x, y = tied(3.0)
    assert quantiles(np.stack([cells(x)[0], cells(y)[0]], 1), [CENTRES, CENTRES], rng) == {}


def test_a_column_that_explains_nothing_is_left_out_and_two_that_do_are_not() -> None:
    x, y = tied(0.1)
    codes = np.stack([cells(x)[0], cells(rng.normal(size=ROWS))[0], cells(y)[0]], 1)
    assert quantiles(codes, [CENTRES] * 3, rng).keys() == {0, 2}


def test_one_column_that_others_explain_which_it_does_not_is_left_alone() -> None:
    x, y = rng.normal(size=(2, ROWS))
    three = x, y, x + y + 1.2 * rng.normal(size=ROWS)  # R² is .58 of the third, and .41 of the others
    assert quantiles(np.stack([cells(v)[0] for v in three], 1), [CENTRES] * 3, rng) == {}


def test_too_few_rows_or_one_column_tie_nothing() -> None:
    x, y = tied(0.05, 2 * ENOUGH - 1)
    both = np.stack([cells(x)[0], cells(y)[0]], 1)
    assert quantiles(both, [CENTRES, CENTRES], rng) == {}
    assert quantiles(both[:, :1], [CENTRES], rng) == {}
    assert quantiles(both[:, :0], [], rng) == {}


def test_nulls_and_constants_are_no_place_and_harm_none() -> None:
    x, y = tied(0.05)
    one, two = cells(x)[0], cells(y)[0]
    one = np.where(rng.random(ROWS) < 0.3, CELLS, one)
    codes = np.stack([one, two, np.zeros(ROWS, np.int64)], 1)
    found = quantiles(codes, [np.append(CENTRES, np.nan), CENTRES, np.array([7.0])], rng)
    assert found.keys() == {0, 1}
    assert all(np.isfinite(p).all() for p in found.values())
    known = one == two
    assert within(found[0], found[1], known) > 0.1, "0.25 to 0.6; without a tie it is 0, give or take 0.01"


def test_columns_that_are_equal_but_for_their_cells_do_not_break_it() -> None:
    one = cells(rng.normal(size=ROWS))[0]
    found = quantiles(np.stack([one, one, one], 1), [CENTRES] * 3, rng)
    assert within(found[0], found[2], one == one) > 0.6


def test_decoded_numbers_agree_within_cells_and_without_it_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rng.random(ROWS)
    y = np.clip(x + 0.01 * rng.normal(size=ROWS), 0, 1 - 1e-9)
    bins = tuple((i / CELLS, (i + 1) / CELLS) for i in range(CELLS))
    columns = tuple(ColumnProfile(n, Kind.DECIMAL, (), (), bins, (1 / CELLS,) * CELLS) for n in "xy")
    schema = TableSchema(tuple(Column(n, Kind.DECIMAL, "double") for n in "xy"))
    codec = TableCodec(schema, TableProfile(ROWS, ROWS, "row", columns))
    codes = codec.encode(pa.table({"x": x, "y": y})).astype(np.int64)

    def gap() -> tuple[float, np.ndarray]:
        back = codec.decode(codes)
        one, two = (back.column(i).to_numpy() for i in range(2))
        return float(np.abs(one - two).mean()), one

    near, drawn = gap()
    assert kstest(drawn, "uniform").pvalue > ALPHA
    monkeypatch.setattr(codecs, "quantiles", lambda *what: {})
    apart, _ = gap()
    assert near < 0.75 * apart


def test_rows_without_ties_lie_evenly_in_their_cells_and_in_no_order() -> None:
    rng = np.random.default_rng()
    codes = rng.integers(0, 4, 4_000) * rng.integers(0, 2, 4_000)
    found = even_quantiles(codes, rng)
    for code in range(4):
        held = found[codes == code]
        assert (np.sort((held * len(held)).astype(int)) == np.arange(len(held))).mean() > 0.99, "but for rounding"
        # Of 500 rows in no order this has a deviation of 0.045, and in order it is 1.
        assert abs(np.corrcoef(held, np.arange(len(held)))[0, 1]) < 0.3
    assert found.min() >= 0
    assert found.max() < 1
    assert len(even_quantiles(np.zeros(0, np.int64), rng)) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("nulls", [0.0, 0.3])
@pytest.mark.parametrize("still", [0, CELLS], ids=["one cell", "null"])
def test_a_column_that_does_not_vary_is_no_cause_for_a_warning(nulls: float, still: int) -> None:
    x, y = tied(0.05)
    one = np.where(rng.random(ROWS) < nulls, CELLS, cells(x)[0])
    codes = np.stack([one, cells(y)[0], np.full(ROWS, still)], 1)
    assert quantiles(codes, [np.append(CENTRES, np.nan)] * 3, rng).keys() == {0, 1}


def histories(move: float, *, persons: int = 3_000, each: int = 6) -> tuple[np.ndarray, Succession]:
    """Numbers that move a little from row to row of one person, and how the rows follow each other."""
    steps = np.append(rng.normal(size=(persons, 1)), move * rng.normal(size=(persons, each - 1)), 1)
    begins = np.arange(persons * each) % each == 0
    return steps.cumsum(1).ravel(), Succession(begins, np.zeros((persons * each, 1), bool))


def to_next(values: np.ndarray, begins: np.ndarray, where: np.ndarray | bool = True) -> float:
    """Return how far off values are from the row before, in the mean, where they follow one."""
    return float(np.abs(values - np.roll(values, 1))[~begins & where].mean())


def test_numbers_that_move_little_from_cell_to_cell_move_little_within_them() -> None:
    x, succession = histories(0.05)
    codes, place = cells(x)
    found = quantiles(codes[:, None], [CENTRES], rng, succession)
    alone = codes + rng.random(len(codes))
    real = to_next(codes + place, succession.begins)
    assert quantiles(codes[:, None], [CENTRES], rng) == {}, "of one column, nothing else tells anything"
    assert to_next(alone, succession.begins) > 1.37 * real, "1.41 to 1.47 in 25 runs"
    assert real < to_next(codes + found[0], succession.begins) < 1.34 * real, "1.15 to 1.27"
    assert kstest(found[0][codes == 17], "uniform").pvalue > ALPHA


def test_no_row_follows_one_of_another_history() -> None:
    x, succession = histories(0.002, persons=20_000, each=2)
    codes, _ = cells(x)
    found = codes + quantiles(codes[:, None], [CENTRES], rng, succession)[0]
    first, strangers = succession.begins, codes == np.roll(codes, 1)
    assert to_next(found, first, strangers) < 0.26, "0.12 to 0.20 in twelve runs"
    assert to_next(found, ~first, strangers) == pytest.approx(1 / 3, abs=0.06), "of 500 pairs; deviation 0.011"


def test_a_value_that_stays_is_placed_where_it_was_and_tells_nothing_of_how_values_move() -> None:
    x, succession = histories(1.0)
    stays = (rng.random((len(x), 1)) < 0.7) & ~succession.begins[:, None]
    source = np.maximum.accumulate(np.where(stays[:, 0], 0, np.arange(len(x))))
    codes, _ = cells(x[source])
    found = quantiles(codes[:, None], [CENTRES], rng, succession._replace(stays=stays))[0]
    assert to_next(found, succession.begins, stays[:, 0]) < 0.02
    moved = ~stays[:, 0] & (codes == np.roll(codes, 1))
    assert to_next(found, succession.begins, moved) > 0.25, "of values that lie in one cell by chance it is 1 / 3"


def test_of_columns_that_are_tied_those_values_stay_that_stay_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = tied(0.1)
    codes = np.stack([cells(rng.normal(size=ROWS))[0], cells(x)[0], cells(y)[0]], 1)
    begins, stays = np.arange(ROWS) % 3 == 0, rng.random((ROWS, 3)) < np.array([0.9, 0.1, 0.2])
    swept: list[np.ndarray] = []
    monkeypatch.setattr(copula, "_sweep", lambda z, ends, correlation, follow, rng: swept.append(follow.stays))
    assert quantiles(codes, [CENTRES] * 3, rng, Succession(begins, stays)).keys() == {1, 2}
    assert all((each == stays[:, 1:]).all() for each in swept)


def test_decoding_tells_which_numbers_stay_and_not_names(monkeypatch: pytest.MonkeyPatch) -> None:
    bins = tuple((i / CELLS, (i + 1) / CELLS) for i in range(CELLS))
    name = ColumnProfile("name", Kind.CATEGORY, ("a", "b"), (0.5, 0.5), (), ())
    number = ColumnProfile("x", Kind.DECIMAL, (), (), bins, (1 / CELLS,) * CELLS)
    schema = TableSchema((Column("name", Kind.CATEGORY, "string"), Column("x", Kind.DECIMAL, "double")))
    codec = TableCodec(schema, TableProfile(ROWS, ROWS, "row", (name, number)))
    stays = np.array([[True, False], [False, True], [True, True]])
    told: list[np.ndarray] = []
    monkeypatch.setattr(codecs, "quantiles", lambda codes, centres, rng, follow: told.append(follow.stays) or {})
    codec.decode(np.zeros((3, 2), np.int64), succession=Succession(np.array([True, False, False]), stays))
    assert told[0].tolist() == [[False], [True], [True]]


def test_values_that_stay_often_and_are_new_otherwise_are_not_tied_to_the_row_before() -> None:
    x, succession = rng.normal(size=18_000), histories(1.0)[1]
    stays = (rng.random((len(x), 1)) < 0.85) & ~succession.begins[:, None]
    source = np.maximum.accumulate(np.where(stays[:, 0], 0, np.arange(len(x))))
    codes = cells(x[source])[0][:, None]
    assert quantiles(codes, [CENTRES], rng, succession).keys() == {0}, "all pairs of rows are alike"
    assert quantiles(codes, [CENTRES], rng, succession._replace(stays=stays)) == {}

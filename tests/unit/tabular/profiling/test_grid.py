from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dp_synth_pipeline.tabular.kinds import KINDS, Kind
from dp_synth_pipeline.tabular.profiling import grid

pytestmark = pytest.mark.slow

NUMERIC = [k for k in KINDS.values() if k.numeric]


@pytest.mark.parametrize("kind", NUMERIC)
def test_the_public_grid_ascends(kind: Kind) -> None:
    assert (np.diff(kind.public_edges()) > 0).all()


def test_the_public_grid_gives_zero_and_one_cells_of_their_own_and_covers_dates() -> None:
    whole = Kind.INTEGER.public_edges()
    assert {0.0, 1.0, 2.0, -1.0} <= set(whole)
    assert (whole[0], whole[-1]) == (-(2.0**63), 2.0**63)
    assert Kind.INTEGER.public_edges(pa.uint64())[-1] == 2.0**64
    days = Kind.DATE.public_edges()
    assert days[0] == (date(1, 1, 1) - date(1970, 1, 1)).days
    assert days[-1] == (date(9999, 12, 31) - date(1970, 1, 1)).days + 1
    assert (date(1600, 1, 1) - date(1970, 1, 1)).days in days
    assert (Kind.DATETIME.public_edges() == days * grid.DAY).all()


def test_every_value_counts_once_also_beyond_the_ends() -> None:
    edges = np.array([0.0, 10.0, 20.0])
    assert grid.count_cells(np.array([-5.0, 0.0, 9.99, 10.0, 20.0, 1e300]), edges).tolist() == [3, 3]
    assert grid.count_cells(np.zeros(0), edges).tolist() == [0, 0]
    assert grid.count_cells(np.array([1.0]), edges[:1]).tolist() == []


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([5, None, -3], pa.int8()), Kind.INTEGER, [5, 0, -3]),
        (pa.array([2**63], pa.uint64()), Kind.INTEGER, [2.0**63]),
        (pa.array(["1.25", "-7.10"]).cast(pa.decimal128(9, 2)), Kind.DECIMAL, [1.25, -7.1]),
        (pa.array([date(1970, 1, 2), date(1969, 12, 31)]), Kind.DATE, [1, -1]),
        (pa.array([datetime(1969, 12, 31, 23, 59, 59)], pa.timestamp("ms")), Kind.DATETIME, [-1e6]),
        (pa.array([datetime(1970, 1, 1, 1)], pa.timestamp("s")), Kind.DATETIME, [3.6e9]),
        (pa.array([1500], pa.timestamp("ns")), Kind.DATETIME, [1]),
        (pa.array([datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo")), Kind.DATETIME, [1.5778368e15]),
    ],
)
def test_values_land_on_their_axis(values: pa.Array, kind: Kind, expected: list[float]) -> None:
    x, null = kind.to_axis(values)
    assert x.tolist() == expected
    assert null.tolist() == [v is None for v in values.to_pylist()]


def test_declared_bounds_land_on_the_same_axis() -> None:
    berlin = timezone(timedelta(hours=2))
    assert grid.axis_value(date(1969, 12, 31)) == -1
    assert grid.axis_value(datetime(1970, 1, 1, 2, tzinfo=berlin)) == 0
    assert grid.axis_value(datetime(1970, 1, 1, 2)) == 7.2e9
    assert grid.axis_value(7) == 7.0


def test_steps_are_a_day_a_whole_number_a_digit_or_nothing() -> None:
    assert Kind.DATE.step(None) == Kind.INTEGER.step(None) == 1
    assert Kind.DECIMAL.step(2) == pytest.approx(0.01)
    assert Kind.DECIMAL.step(None) == 0
    assert Kind.DATETIME.step(None, 60_000_000) == 6e7


def test_the_support_is_what_noise_does_not_explain() -> None:
    noisy = np.array([0, 30, -20, 500, 0, 10, 460, 0.0])
    assert grid.support(noisy, 100.0) == (3, 6)
    assert grid.support(np.zeros(8), 100.0) is None
    assert grid.support(np.array([0, 0, 100.0]), 10.0) == (2, 2)


def test_many_light_cells_are_seen_together() -> None:
    noisy = np.zeros(64)
    noisy[16:32] = 130  # 1.3 deviations each: nothing alone, 5.2 deviations together
    assert grid.support(noisy, 100.0) == (16, 31)


def test_windows_overlap_so_that_no_border_parts_what_is_seen_together() -> None:
    noisy = np.zeros(64)
    noisy[8:24] = 130
    assert grid.support(noisy, 100.0) == (8, 23)


def test_where_some_cell_holds_somebody_the_likeliest_is_the_support() -> None:
    noisy = np.array([0, 100, -20, 300, 200, 10, 0, 0.0])
    assert grid.support(noisy, 100.0) is None
    assert grid.support(noisy, 100.0, least=0.0) == (3, 4)
    assert grid.support(np.zeros(8), 100.0, least=0.0) is None


def test_cells_near_where_values_are_expected_are_likelier_than_far_ones() -> None:
    noisy = np.zeros(128)
    noisy[[9, 99]] = 460, 470  # of so many windows, noise alone makes one of 4.7 now and then
    assert grid.support(noisy, 100.0) == (99, 99)
    assert grid.support(noisy, 100.0, (8, 9)) == (9, 9)
    assert grid.support(noisy, 100.0, (8, 8), least=0.0) == (9, 9)
    assert grid.support(noisy, 100.0, (0, 3)) is None, "neither would be sure, so far off"
    assert grid.support(noisy, 100.0, (0, 3), least=0.0) == (9, 9)
    noisy[9] = 150
    assert grid.support(noisy, 100.0, (8, 9), least=0.0) == (9, 9), "ninety cells off hardly anything is expected"


def test_pure_noise_is_seldom_taken_for_support() -> None:
    # 4.5 deviations over 128 cells and 240 windows: 370 * 3.4e-6 = 1.3e-3 a run, so more than 14 of 1000 has
    # probability P[Poisson(1.3) > 14] = 1e-11.
    rng = np.random.default_rng()
    found = [grid.support(rng.normal(0, 100, 128), 100.0) for _ in range(1000)]
    assert sum(f is not None for f in found) <= 14


def test_pure_noise_far_from_sure_cells_hardly_ever_stretches_the_support() -> None:
    # A chance of 1e-4 a run: more than 8 of 8000 has probability P[Poisson(0.8) > 8] = 2e-7; at 4.5 deviations it is 0.8.
    rng = np.random.default_rng()
    found = [grid.support(np.append(1e4, rng.normal(0, 100, 128)), 100.0) for _ in range(8000)]
    assert sum(f != (0, 0) for f in found) <= 8


@given(
    low=st.integers(-(10**6), 10**6),
    widths=st.lists(st.integers(1, 5000), min_size=1, max_size=12),
    counts=st.lists(st.integers(-200, 10**5), min_size=12, max_size=12),
    width=st.sampled_from([1.0, 5.0, 0.01, 0.0]),
    scale=st.floats(0.5, 500.0),
)
def test_refined_edges_ascend_keep_their_ends_and_fall_on_the_step(
    low: int, widths: list[int], counts: list[int], width: float, scale: float
) -> None:
    edges = low + np.cumsum([0, *widths]).astype(float)
    noisy = np.array(counts[: len(widths)], dtype=float)
    fine = grid.refine(edges, noisy, scale=scale, width=width, cells=64)
    assert (np.diff(fine) > 0).all()
    assert (fine[0], fine[-1]) == (edges[0], edges[-1])
    assert set(edges) <= set(fine)
    assert len(fine) - 1 <= 64 * 1.5 + len(edges)
    added = np.setdiff1d(fine, edges)
    if width:
        assert np.allclose(added / width, np.round(added / width), atol=1e-6)


def test_cells_lighter_than_noise_are_not_cut() -> None:
    edges = np.array([0.0, 100.0, 200.0])
    assert grid.refine(edges, np.array([20.0, -5.0]), scale=10.0, width=1.0, cells=64).tolist() == edges.tolist()
    assert len(grid.refine(edges, np.array([6400.0, 0.0]), scale=1.0, width=1.0, cells=64)) - 1 == 65


def test_reconciling_exact_counts_changes_nothing() -> None:
    parents, edges = np.array([0.0, 10, 20]), np.array([0.0, 2, 5, 10, 12, 20])
    cells = np.array([3.0, 4, 5, 6, 7])
    moved = grid.reconcile(parents, np.array([12.0, 13.0]), 8.0, edges, cells, 2.0)
    assert moved == pytest.approx(cells)


def test_reconciling_blends_by_inverse_variance() -> None:
    parents, edges = np.array([0.0, 10]), np.array([0.0, 5, 10])
    moved = grid.reconcile(parents, np.array([30.0]), 2.0, edges, np.array([5.0, 15.0]), 1.0)
    # The cells' sum has variance 2, the parent 4: the blend of 20 and 30 is 20 + 10 * 2 / 6.
    assert moved.sum() == pytest.approx(20 + 10 / 3)
    assert np.diff(moved) == pytest.approx(10)


def test_reconciling_lowers_the_error_of_sums() -> None:
    rng = np.random.default_rng()
    truth = rng.integers(0, 50, 32).astype(float)
    edges, parents = np.arange(33.0), np.arange(0, 33, 8.0)
    before, after = [], []
    for _ in range(400):
        cells = truth + rng.normal(0, 10, 32)
        tops = truth.reshape(4, 8).sum(1) + rng.normal(0, 10, 4)
        moved = grid.reconcile(parents, tops, 10.0, edges, cells, 10.0)
        before.append(((cells.reshape(4, 8) - truth.reshape(4, 8)).sum(1) ** 2).mean())
        after.append(((moved.reshape(4, 8) - truth.reshape(4, 8)).sum(1) ** 2).mean())
    # Expected 800 and 89; each mean of 1600 squares has a relative deviation of 3.5 percent.
    assert np.mean(after) < 0.5 * np.mean(before)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=7), st.floats(1.0, 4.0))
def test_probabilities_are_the_nearest_point_of_the_simplex(noisy: list[float], total: float) -> None:
    v = np.array(noisy)
    p = grid.to_probabilities(v, total)
    assert p.sum() == pytest.approx(1)
    assert (p >= 0).all()
    # Optimality of a projection: (v - p) . (q - p) <= 0 for every corner q.
    gap = v / total - p
    assert all(gap @ (corner - p) <= 1e-9 for corner in np.eye(len(v)))


def test_probabilities_agree_with_a_numerical_optimum() -> None:
    v = np.array([0.5, 0.4, 0.3, -0.2])
    found = minimize(
        lambda p: ((p - v) ** 2).sum(),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
    )
    assert grid.to_probabilities(v, 1.0) == pytest.approx(found.x, abs=1e-5)
    assert grid.to_probabilities(np.zeros(0), 5.0).tolist() == []


def test_ends_that_noise_explains_are_cut_and_what_lies_beside_sure_cells_is_kept() -> None:
    edges = np.arange(10.0)
    assert grid.ends(edges, np.array([1, 0, 26, 400, 300, 300, 24, 0, 0.0]), 10.0) == (2, 5), (
        "26 and 24 are 2.6 and 2.4"
    )
    assert grid.ends(edges, np.array([0, 0, 400, -30, 300, -5, 42, 0, 0.0]), 10.0) == (2, 6), (
        "37 are over 2.5 of two cells"
    )
    assert grid.ends(edges, np.array([0, 0, 400, 300, 300, 15, 16, 16, 40.0]), 10.0) == (2, 7), (
        "as far again, no further"
    )
    # The window of four cells from 4 on is sure, and its first cell idle.
    together = np.array([0.0] * 5 + [31.0] * 4 + [0.0] * 7)
    assert grid.support(together, 10.0) == (4, 7)
    assert grid.ends(np.arange(17.0), together, 10.0) == (5, 8)
    assert grid.ends(edges, np.array([3, 8, 5, 0, 0, 0, 0, 0, 0.0]), 10.0) == (0, 8), "all of it may be noise"


def test_what_lies_beyond_the_ends_is_shared_by_the_others_and_so_is_dust() -> None:
    noisy = np.array([9, 0, 2, 400, 2, 300, 26, 0, 6.0])
    mass = np.array([3, 0, 0, 400, 2, 300, 0.9, 0, 3.0])
    edges, kept = grid.without_tails(np.arange(10.0), noisy, mass, 10.0)
    assert edges.tolist() == [3, 4, 5, 6], "26 is beyond noise, but smoothing left a row of it"
    assert kept == pytest.approx(np.array([400, 2, 300]) * 708.9 / 702)
    edges, kept = grid.without_tails(np.arange(10.0), np.zeros(9), np.full(9, 0.5), 10.0)
    assert (len(edges), kept.sum()) == (10, 4.5), "all of it is dust"


def test_an_outermost_cell_ends_where_values_are_likely_and_holds_what_it_held() -> None:
    edges = np.array([16, 59, 60, 61, 62, 63, 64, 128.0])
    mass = np.array([4300, 100, 90, 110, 105, 95, 100.0])
    cut, kept = grid.without_tails(edges, mass, mass, 10.0, 1.0)
    assert cut.tolist() == [16, 59, 60, 61, 62, 63, 64, 73], (
        "8 times as thin as between 63 and 64, whole years: 64 + 8.4"
    )
    assert kept == pytest.approx(mass)
    cut, _ = grid.without_tails(-edges[::-1], mass[::-1], mass[::-1], 10.0, 1.0)
    assert cut.tolist() == [-73, -64, -63, -62, -61, -60, -59, -16]
    cut, _ = grid.without_tails(edges / 100, mass, mass, 10.0, 0.01)
    assert cut[-1] == 0.73, "as it is written"
    cut, _ = grid.without_tails(edges, mass, mass, 10.0)
    assert cut[-1] == pytest.approx(64 + 8 * 100 / 95)
    even = np.array([4300, 100, 100, 100, 100, 100, 900.0])
    assert grid.without_tails(edges, even, even, 10.0, 1.0)[0].tolist() == edges.tolist(), "it is full to its end"


def test_no_noise_beyond_a_table_has_a_part_of_its_rows() -> None:
    # 60 empty cells after 20 full ones: their noise, clipped at 0, would hold 24 deviations; 2.5 of few cells are believed.
    rng = np.random.default_rng()
    found = [grid.ends(np.arange(81.0), rng.normal([60.0] * 20 + [0.0] * 60, 10.0), 10.0) for _ in range(500)]
    assert np.mean([last for _, last in found]) < 20.2, "it is 19.4, with a deviation of 0.10"
    assert np.mean([first for first, _ in found]) < 0.03, "noise hides the first cell in 2 of 10,000, not 15 of 500"


def test_a_cell_covers_the_values_in_it_that_have_no_name() -> None:
    edges = np.array([0.0, 0.1, 0.3, 0.7, 1.0])
    assert grid.free(edges, 0.1, np.array([0.0, 0.3, 0.5])) == pytest.approx([0, 2, 2, 3])
    assert grid.free(edges, 0.0, np.array([0.5])) == pytest.approx([0.1, 0.2, 0.4, 0.3]), "a continuum has no points"
    with warnings.catch_warnings(action="error"):
        assert grid.free(np.array([0.0, 1e307, 1.7e308]), 0.01, np.array([1.6e308])) == pytest.approx([1e300, 1e300])
    far = np.array([2.0**60, 2.0**61])
    assert grid.free(far, 1.0, np.array([])) == [2.0**60], "and where no double is a multiple, the width counts"


@pytest.mark.parametrize("decimals", range(1, 7))
def test_cuts_fall_on_numbers_as_they_are_written(decimals: int) -> None:
    pieces = grid.refine(np.array([1000.0, 1030.0]), np.array([9e6]), scale=1.0, width=10.0**-decimals, cells=300)
    assert [float(f"{c:.{decimals}f}") for c in pieces] == pieces.tolist()


@pytest.mark.parametrize("width", [0.01, 1.0, 0.0])
def test_cells_at_the_end_of_double_precision_are_cut_into_finite_pieces(width: float) -> None:
    edges = np.exp2([512.0, 1023.0])
    pieces = grid.refine(edges, np.array([1000]), scale=1.0, width=width, cells=8)
    assert np.isfinite(pieces).all()
    assert (np.diff(pieces) > 0).all()
    assert len(pieces) == 9

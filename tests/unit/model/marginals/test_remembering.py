"""What several releases tell together is nearer to the truth than the last one alone, and follows it where it moves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals
from dp_synth_pipeline.model.marginals.remembering import DRIFTS, Memory

LAYOUT = Layout((8, 9, 10, 11), ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)))
ROWS = 10_000
RNG = np.random.Generator(np.random.PCG64(3))
"""Of simulated noise and made-up truths: nothing here is private, so a fixed stream is fine."""


@pytest.fixture(autouse=True)
def _afresh() -> None:
    """Each test draws the same, whichever ran before it."""
    RNG.bit_generator.state = np.random.PCG64(3).state


def truth(spread: float = 1.0) -> np.ndarray:
    parts = [RNG.dirichlet(np.full(stop - start, spread)) for start, stop in zip(*_ends(), strict=True)]
    return np.concatenate(parts)


def _ends() -> tuple[np.ndarray, np.ndarray]:
    return LAYOUT.offsets[:-1], LAYOUT.offsets[1:]


def measured(shares: np.ndarray, scale: float, rows: int = ROWS) -> Marginals:
    return Marginals(LAYOUT, shares * ROWS + RNG.normal(0, scale, LAYOUT.cells), scale, rows)


def remembered(releases: list[Marginals]) -> Memory:
    memory = Memory.begun(releases[0])
    for release in releases[1:]:
        memory = memory.updated(release)
    return memory


def error(memory: Memory, shares: np.ndarray) -> float:
    return float(np.sqrt(np.mean((memory.shares - shares) ** 2)) * ROWS)


def test_one_release_by_itself_tells_what_it_measured() -> None:
    alone = measured(truth(), 20.0)
    again = Memory.begun(alone).marginals
    assert np.allclose(again.counts, alone.counts)
    assert again.scale == pytest.approx(alone.scale)
    assert again.layout == alone.layout


def test_releases_of_a_table_that_stays_add_up_as_their_noise_allows() -> None:
    shares, scales = truth(), [20.0, *[60.0] * 27]
    memory = remembered([measured(shares, scale) for scale in scales])
    ideal = 1 / math.sqrt(sum(scale**-2 for scale in scales))
    assert ideal == pytest.approx(10.0)
    assert error(memory, shares) < 1.3 * ideal
    assert memory.common[0] > 0.8
    assert memory.marginals.scale == pytest.approx(ideal, rel=0.4), "it knows how good it is"


def test_a_noisier_release_counts_less_by_its_variance() -> None:
    shares = truth()
    good, bad = measured(shares, 10.0), measured(shares, 100.0)
    both = remembered([good, bad])
    weight = 10.0**2 / (10.0**2 + 100.0**2)
    mean = (1 - weight) * good.counts / Memory.begun(good).rows.mean + weight * bad.counts / both.rows.mean
    assert np.allclose(both.shares, mean, atol=3e-4)


def test_a_table_that_moves_is_followed() -> None:
    first, last, weeks = truth(5.0), truth(5.0), 20
    path = [first + (last - first) * week / weeks for week in range(weeks + 1)]
    releases = [measured(shares, 20.0) for shares in path]
    memory = remembered(releases)
    still = sum(release.counts for release in releases) / len(releases) / ROWS
    assert error(memory, last) < 20.0, "better than the last release alone"
    assert error(memory, last) < 0.4 * float(np.sqrt(np.mean((still - last) ** 2)) * ROWS)


def test_a_clique_that_jumps_is_learnt_anew_and_the_others_are_kept() -> None:
    shares = truth()
    moved, place = shares.copy(), slice(*LAYOUT.offsets[[0, 1]])
    moved[place] = RNG.dirichlet(np.ones(place.stop))
    memory = remembered([*[measured(shares, 20.0) for _ in range(10)], measured(moved, 20.0)])
    gap = (memory.shares - moved) * ROWS
    assert np.sqrt(np.mean(gap[place] ** 2)) < 30.0, "noise alone is 20, and the jump a hundred"
    assert np.sqrt(np.mean(gap[place.stop :] ** 2)) < 10.0
    assert not memory.lost


def test_another_table_is_told_to_be_one() -> None:
    one, other = truth(), truth()
    assert remembered([measured(one, 5.0), measured(other, 5.0)]).lost
    assert not remembered([measured(one, 5.0), measured(one, 5.0)]).lost


@pytest.mark.parametrize("grown", [1.0, 1.5])
def test_a_table_that_grows_keeps_its_shares_and_tells_its_rows(grown: float) -> None:
    shares = truth()
    more = Marginals(LAYOUT, grown * shares * ROWS + RNG.normal(0, 5.0, LAYOUT.cells), 5.0, ROWS)
    memory = remembered([measured(shares, 5.0), more])
    assert memory.rows.mean == pytest.approx(grown * ROWS, rel=0.02)
    assert error(memory, shares) < 6.0


def test_where_noise_hides_how_many_rows_there_are_the_known_number_stays() -> None:
    assert Memory.begun(Marginals(LAYOUT, np.zeros(LAYOUT.cells), 1e6, ROWS)).rows.mean == ROWS


def test_drifts_ascend_from_none() -> None:
    assert DRIFTS[0] == 0.0
    assert list(DRIFTS) == sorted(DRIFTS)


def test_the_same_released_numbers_always_tell_the_same() -> None:
    releases = [measured(truth(), 20.0) for _ in range(3)]
    one, other = remembered(releases), remembered(releases)
    assert np.array_equal(one.shares, other.shares)
    assert np.array_equal(one.variance, other.variance)


def test_a_move_is_told_from_noise_and_measured() -> None:
    shares, other = truth(5.0), truth(5.0)
    stays, moves = np.split(np.arange(LAYOUT.cells), [LAYOUT.offsets[3]])
    now = np.concatenate([shares[stays], other[moves]])
    moved = Memory.begun(measured(shares, 20.0)).moved(measured(now, 20.0))
    truly = np.add.reduceat(np.abs(now - shares), LAYOUT.offsets[:-1]) / 2
    assert moved[:3] == pytest.approx(0, abs=0.01), "what noise explains is no move"
    assert moved[3:] == pytest.approx(truly[3:], rel=0.1)

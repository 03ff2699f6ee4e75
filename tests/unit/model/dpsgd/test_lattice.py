"""Whole numbers in the place of floats: sums that are exact, and noise without a bound that is drawn for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd import lattice
from dp_synth_pipeline.model.dpsgd.lattice import EXACT, FINEST, NOISE_BITS, Lattice, exact_ranges

CPU = torch.device("cpu")


@pytest.mark.parametrize("noise", [1e-9, 0.5, 1.0, 2.78, 100.0, 2.0**20])
def test_noise_has_the_finest_lattice_on_which_it_is_drawn_fast(noise: float) -> None:
    made = Lattice.under(0.7, noise)
    assert noise * 2.0**made.noise_bits <= 2.0**NOISE_BITS
    assert made.noise_bits == FINEST or noise * 2.0 ** (made.noise_bits + 1) > 2.0**NOISE_BITS
    assert made.spacing * 2**made.bits == 0.7
    assert made.input_bits + made.gradient_bits == made.bits


@pytest.mark.parametrize("noise", [0.5, 2.78, 50.0])
def test_what_the_second_rounding_adds_to_the_noise_is_less_than_a_millionth(noise: float) -> None:
    made = Lattice.under(1.0, noise)
    assert 1 < made.sensitivity(30_000) / 2**made.noise_bits < 1 + 3e-6 * max(1, noise / 50)
    assert Lattice(1.0).sensitivity(30_000) == 2**40, "sums that are not rounded again owe nothing"


def test_a_unit_moves_rounded_sums_by_their_sensitivity_at_most() -> None:
    made, rng = Lattice.under(1.0, 2.0**15), np.random.default_rng()
    for _ in range(200):
        sums = torch.from_numpy(rng.integers(-(2**50), 2**50, 5000))
        way = torch.randn(5000, dtype=torch.float64)
        unit = (way / way.norm() * 2.0**40).to(torch.int64)  # shrinks
        moved = made.rounded(sums + unit) - made.rounded(sums)
        assert float(moved.double().norm()) <= made.sensitivity(5000)
        assert (
            float((made.noisy_values(made.rounded(sums)) - sums.double() * made.spacing).abs().max())
            <= 2.0**-made.noise_bits / 2
        )


def test_noise_for_which_no_lattice_is_fine_enough_is_refused() -> None:
    with pytest.raises(TrainingError, match="would drown everything"):
        Lattice.under(1.0, 2.0**20.1)


def test_noise_has_the_planned_deviation_in_bounds() -> None:
    made = Lattice.under(0.7, 3.0)
    drawn = made.noise(3.0, 100_000, CPU)
    assert drawn.dtype == torch.int64
    assert float(made.noisy_values(drawn).std()) == pytest.approx(3.0 * 0.7, rel=7 / math.sqrt(200_000))


def test_noise_reaches_where_normal_floats_never_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's 32-bit normals end at sqrt(48 log 2) = 5.768 deviations; of ten million true ones, 0.08 lie beyond.

    The sampler's first word chooses how far a proposal lies; words that choose the farthest are put in its place.
    """
    from dp_synth_pipeline.privacy import noise

    honest = noise.secure_words

    def rare(count: int) -> np.ndarray:
        words = honest(count).copy()
        words[: count // 2] = np.uint64((noise._beyond() - 1) << 52)  # with a coin that accepts
        return words

    monkeypatch.setattr(noise, "secure_words", rare)
    made = Lattice.under(1.0, 1.0)
    assert float(made.noisy_values(made.noise(1.0, 1000, CPU)).abs().min()) > 5.768


def test_whole_numbers_come_back_as_the_values_that_they_stand_for() -> None:
    made = Lattice(0.3, 30)
    values = torch.randn(100) * 50
    assert float((made.values(made.whole(values)) - values).abs().max()) <= made.spacing + 1e-5
    assert made.whole(torch.tensor([0.3, -0.3], dtype=torch.float64)).tolist() == [2**30, -(2**30)]


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
@pytest.mark.parametrize("most", [0.5, 3.0, 1e9])
def test_rows_are_cut_into_runs_that_carry_no_more_than_asked_or_are_one_row(rows: int, most: float) -> None:
    loads = torch.rand(rows, dtype=torch.float64)
    found = exact_ranges(loads, most)
    assert [i for cut in found for i in range(cut.start, cut.stop)] == list(range(rows))
    for cut in found:
        assert float(loads[cut].sum()) <= most * (1 + 1e-9) or cut.stop - cut.start == 1


def test_a_heavy_row_is_a_run_of_its_own_and_others_are_as_few_as_they_can_be() -> None:
    loads = torch.tensor([0.1, 5.0, 0.1, 0.1, 3.0, 1.0, 1.0, 1.0, 9.0], dtype=torch.float64)
    runs = [(cut.start, cut.stop) for cut in exact_ranges(loads, 3.5)]
    assert runs == [(0, 1), (1, 2), (2, 5), (5, 8), (8, 9)]


def test_sums_of_whole_numbers_are_exact_in_any_order_below_the_limit() -> None:
    rng = np.random.default_rng()
    factors = [torch.from_numpy(rng.integers(-(2**20), 2**20, (300, n)).astype(float)) for n in (5, 7)]
    assert EXACT > 300 * 2.0**40
    order = torch.randperm(300)
    first = factors[0].T @ factors[1]
    second = sum(factors[0][order[i : i + 13]].T @ factors[1][order[i : i + 13]] for i in range(0, 300, 13))
    assert torch.equal(first, second)
    whole = factors[0].long().numpy().astype(object).T @ factors[1].long().numpy().astype(object)
    assert (first.long().numpy().astype(object) == whole).all()


def test_training_takes_its_noise_from_the_sampler_of_the_privacy_room() -> None:
    from dp_synth_pipeline.privacy import noise

    assert lattice.rounded_gaussian is noise.rounded_gaussian

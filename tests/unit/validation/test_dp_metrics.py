"""Charged accuracy figures: what one unit can move, what the noise does, what is charged."""

from __future__ import annotations

import numpy as np
import pytest

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.validation import dp_metrics
from dp_synth_pipeline.validation.dp_metrics import ChargedPlan, Headline

CARDS = (3, 4, 2)


def measure(codes: np.ndarray, drawn: np.ndarray, cards: tuple[int, ...], plan: ChargedPlan, rows: int) -> Headline:
    return dp_metrics.measure(codes, drawn, cards, plan, rows=rows, odometer=Odometer(plan.events))


def codes(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, k, rows) for k in CARDS]).astype(np.int16)


@pytest.fixture
def seen(monkeypatch) -> list[int]:
    """The exact sums that reach the mechanism, which adds no noise here."""
    sums: list[int] = []

    def exact(count: int, *, epsilon: float, sensitivity: int, odometer: Odometer):
        sums.append(count)
        return count, None

    monkeypatch.setattr(mechanisms, "noisy_count", exact)
    return sums


def test_tables_with_the_same_counts_agree_fully(seen) -> None:
    found = measure(codes(500), codes(500), CARDS, ChargedPlan(3, 1, 0.1), rows=500)
    assert (found.one, found.two) == (1, 1)
    assert seen == [0, 0]


def test_the_agreement_is_one_minus_the_mean_distance(seen) -> None:
    real, drawn = np.array([[0, 0]] * 6 + [[1, 0]] * 4), np.array([[0, 0]] * 3 + [[1, 0]] * 7)
    found = measure(real, drawn, (2, 1), ChargedPlan(2, 1, 0.1), rows=10)
    assert found.one == pytest.approx(1 - (0.3 + 0) / 2)
    assert found.two == pytest.approx(0.7)


@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("rows", [40, 57])
def test_no_unit_moves_a_sum_by_more_than_the_event_says(seen, max_rows: int, rows: int) -> None:
    real, drawn, plan = codes(50, 1), codes(80, 2), ChargedPlan(3, max_rows, 0.1)
    measure(real, drawn, CARDS, plan, rows=rows)
    with_all = list(seen)
    most = [0, 0]
    for unit in range(0, 50 - max_rows):
        seen.clear()
        measure(np.delete(real, np.s_[unit : unit + max_rows], axis=0), drawn, CARDS, plan, rows=rows)
        most = [max(m, abs(a - b)) for m, a, b in zip(most, with_all, seen, strict=True)]
    assert all(m <= e.sensitivity for m, e in zip(most, plan.events, strict=True))
    assert most[0] >= plan.events[0].sensitivity - 2  # the bound is no wild guess either


def test_the_events_cost_the_epsilon_asked_and_no_more() -> None:
    for columns in (1, 2, 15, 60):
        plan = ChargedPlan(columns, 4, 0.05)
        assert sum(e.pure_epsilon for e in plan.events) == pytest.approx(0.05)
        assert len(plan.ways[-1]) <= dp_metrics.MOST_PAIRS


def test_the_noise_is_what_the_event_says() -> None:
    plan = ChargedPlan(3, 2, 0.5)
    real, drawn = codes(3000, 3), codes(3000, 4)
    figures = [measure(real, drawn, CARDS, plan, rows=3000) for _ in range(4000)]
    noise = np.std([f.one for f in figures]) * 2 * 3 * 3000
    # The deviation of n Laplace variates is off by sqrt(5 / 4 n) = 0.018 of itself: 0.12 is 6.8 of them.
    assert noise == pytest.approx(2**0.5 * plan.events[0].scale, rel=0.12)
    middle = np.median([f.one for f in figures])
    inside = np.mean([abs(f.one - middle) <= f.one_within for f in figures])
    assert 0.92 < inside < 0.97, "0.949, and by chance 0.0035 more or less"


def test_the_mechanism_is_called_with_what_was_planned(monkeypatch) -> None:
    called = []

    def noisy(count: int, *, epsilon: float, sensitivity: int, odometer: Odometer):
        called.append((pytest.approx(epsilon), sensitivity))
        return count, None

    monkeypatch.setattr(mechanisms, "noisy_count", noisy)
    plan = ChargedPlan(3, 4, 0.1)
    measure(codes(100), codes(100), CARDS, plan, rows=100)
    assert [(e.pure_epsilon, e.sensitivity) for e in plan.events] == called


def test_a_released_number_of_rows_that_is_off_never_flatters(seen) -> None:
    plan = ChargedPlan(3, 1, 0.1)
    right = measure(codes(1000), codes(1000), CARDS, plan, rows=1000)
    for rows in (900, 1100):
        assert measure(codes(1000), codes(1000), CARDS, plan, rows=rows).one < right.one


def test_one_column_has_one_figure_at_the_whole_epsilon() -> None:
    plan = ChargedPlan(1, 1, 0.2)
    assert [e.pure_epsilon for e in plan.events] == [pytest.approx(0.2)]
    assert measure(codes(100)[:, :1], codes(100)[:, :1], CARDS[:1], plan, rows=100).two is None


def test_an_empty_private_table_is_measured_like_any_other() -> None:
    found = measure(codes(0), codes(50), CARDS, ChargedPlan(3, 1, 0.1), rows=1)
    assert 0 <= found.one <= 1


def test_chance_is_what_two_samples_reach(seen) -> None:
    plan = ChargedPlan(3, 1, 0.1)
    found = [measure(codes(2000, i), codes(2000, i + 100), CARDS, plan, rows=2000) for i in range(30)]
    assert np.mean([f.one for f in found]) == pytest.approx(found[0].one_best, abs=0.003)
    assert np.mean([f.two or 0 for f in found]) == pytest.approx(found[0].two_best or 0, abs=0.003)

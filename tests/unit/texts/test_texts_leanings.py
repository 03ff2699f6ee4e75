"""Leanings are what counts say that noise does not explain, and raking brings what is drawn to what was counted."""

from __future__ import annotations

import numpy as np

from dp_synth_pipeline.texts.leanings import Leanings

MERGED = ((1, (0, 1, 1)),)
"""The second of two columns, whose last two codes are merged."""

SHARES = np.array([0.5, 0.3, 0.2])
COUNTS = np.array([[8_000.0, 2_000.0], [1_000.0, 5_000.0], [1_000.0, 3_000.0]])


def test_without_noise_a_row_leans_as_its_code_was_counted() -> None:
    found = Leanings.of(MERGED, SHARES, [(COUNTS, 0.0)])
    upon = found.upon(np.array([[9, 0], [9, 2], [9, 1]]))
    np.testing.assert_allclose(np.exp(upon[0]) * SHARES, COUNTS[:, 0] / COUNTS[:, 0].sum(), rtol=1e-4)
    np.testing.assert_array_equal(upon[1], upon[2])


def test_what_noise_may_explain_is_left_to_chance() -> None:
    noisy = Leanings.of(MERGED, SHARES, [(COUNTS, 1e6)])
    assert np.abs(noisy.upon(np.array([[0, 0]]))).max() < 0.01
    of_one = Leanings.of(MERGED, SHARES, [(COUNTS, np.array([[0.0], [0.0], [1e6]]))]).upon(np.array([[0, 0]]))[0]
    sure = Leanings.of(MERGED, SHARES, [(COUNTS, 0.0)]).upon(np.array([[0, 0]]))[0]
    assert of_one[2] - of_one[0] > sure[2] - sure[0] + 0.1  # the third word alone was drawn towards chance


def test_raking_brings_what_is_drawn_to_what_was_counted() -> None:
    """A model that draws words as it likes, and then as it leans: 40,000 words, shares within 0.02."""
    own, rng = np.array([0.1, 0.1, 0.8]), np.random.default_rng()
    codes = np.stack([np.zeros(2_000, np.int64), rng.integers(0, 3, 2_000)], 1)
    leanings = Leanings.of(MERGED, SHARES, [(COUNTS, 0.0)])

    def draw(found: Leanings) -> list[np.ndarray]:
        shares = own * np.exp(found.upon(codes))
        upto = shares.cumsum(1) / shares.sum(1, keepdims=True)
        return [np.searchsorted(u, rng.random(20)) for u in upto]

    def away(drawn: list[np.ndarray]) -> float:
        first = np.concatenate([d for d, c in zip(drawn, codes[:, 1], strict=True) if c == 0])
        return float(np.abs(np.bincount(first, minlength=3) / len(first) - COUNTS[:, 0] / COUNTS[:, 0].sum()).max())

    assert away(draw(leanings)) > 0.2
    for _ in range(8):
        leanings = leanings.nearer(codes, draw(leanings))
    assert away(draw(leanings)) < 0.02


def test_what_is_kept_is_read_back() -> None:
    found = Leanings.of(MERGED, SHARES, [(COUNTS, 1.0)])
    again = Leanings.from_arrays([[1, [0, 1, 1]]], found.arrays())
    assert again.merged == found.merged
    np.testing.assert_array_equal(again.weights[0], found.weights[0])
    np.testing.assert_array_equal(again.targets[0], found.targets[0])
    assert Leanings.from_arrays([], {}) == Leanings()

"""Counts of texts: one unit more moves each by no more than was charged, and what one unit alone holds is never named."""

from __future__ import annotations

import doctest
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular import text_lengths
from dp_synth_pipeline.texts import fitting, measuring, tokens
from dp_synth_pipeline.texts.measuring import Read, Rows
from dp_synth_pipeline.texts.plan import TextPlan

SENTENCES = (
    "the cat sat on the mat",
    "a dog ran to the cat",
    "the dog sat, and a cat ran",
    "AB-12",
    "AB-77",
    "Zoë, Čapek",
)
WORDS = ("the", " cat", " dog", " the")


def rows(texts: list[str], columns: int = 2, most: int = 60) -> Rows:
    codes = np.stack([np.arange(len(texts)) % (2 + c) for c in range(columns)], 1).astype(np.int64)
    return Rows(texts, codes, [np.full(2 + c, 1 / (2 + c)) for c in range(columns)], most, 20.0)


def measured(found: Rows, noise: float = 0.7, count: int = 0) -> measuring.TextCounts:
    plan = TextPlan(noise, 1e-9, 1)
    return measuring.measure(found, plan, count or len(found.texts), Odometer(plan.events))


def seen(monkeypatch: pytest.MonkeyPatch, found: Rows) -> list[tuple[Any, float]]:
    """Return all that would be counted, with its sensitivity, in a world where all answers are the same."""
    told: list[tuple[Any, float]] = []

    def answer(histograms, *, scale, sensitivity, odometer):
        told.extend((h, sensitivity) for h in histograms)
        pinned = [np.where(np.arange(len(h)) % 97 == 5, 10**9, 0) for h in histograms]
        return pinned, None

    def named(self, held, part, sensitivity, most, keys=1):
        told.append((held, sensitivity))
        assert max(held.values(), default=0) <= most * len(self.rows.texts)
        return [(word, 1e6) for word in (WORDS if sensitivity > 1 else ("AA-00",))]

    monkeypatch.setattr(mechanisms, "noisy_histograms", answer)
    monkeypatch.setattr(measuring._Pass, "_named", named)
    measuring.measure(found, TextPlan(1.0, 1e-9, 1), 10, Odometer(()))
    return told


ONE_MORE = (
    "the " * 14,
    "x",
    "",
    "AB-99",
    "wholly new words, none of which anybody else has",
    "ŋŋŋŋ ŋŋ",
    "a b c d e f g h i j k l",
)


@pytest.mark.parametrize("text", ONE_MORE)
@pytest.mark.parametrize("columns", [1, 3, measuring.MOST_COLUMNS + 2])
def test_one_row_more_moves_each_histogram_by_at_most_its_sensitivity(monkeypatch, text, columns):
    without, more = (
        seen(monkeypatch, rows([*SENTENCES, *extra], columns)) for extra in ([], [text_lengths.cleaned(text, 60)])
    )
    assert len(without) == len(more) > 10
    for (a, sensitivity), (b, _) in zip(without, more, strict=True):
        if isinstance(a, np.ndarray):
            moved = float(np.linalg.norm((b - a).astype(float)))
        else:
            moved = float(np.linalg.norm([b[k] - a[k] for k in {*a, *b}]))
        assert moved <= sensitivity


@pytest.mark.parametrize("columns", [1, 3, measuring.MOST_COLUMNS + 2])
@pytest.mark.parametrize("own", [[0] * 9, [7], [], list(range(9))])
def test_one_row_more_moves_each_count_of_public_words_by_at_most_its_sensitivity(monkeypatch, own, columns):
    told: list[list[Any]] = []

    def answer(histograms, *, scale, sensitivity, odometer):
        told[-1].extend((h, sensitivity) for h in histograms)
        return [np.full(len(h), 1_000) for h in histograms], None

    monkeypatch.setattr(mechanisms, "noisy_histograms", answer)
    for words in ([[1, 2, 2], [3], []], [[1, 2, 2], [3], [], own]):
        told.append([])
        table = replace(rows(["x"] * len(words), columns), texts=(), most=9)
        read = np.array([w for text in words for w in text], np.int64)
        reader = np.repeat(np.arange(len(words)), [len(text) for text in words])
        measuring.measure_words(table, Read(10, read, reader), TextPlan(1.0, 0.0, 1), Odometer(()))
    assert len(told[0]) == len(told[1]) == 1 + min(columns, measuring.MOST_COLUMNS) + (columns > measuring.MOST_COLUMNS)
    for (a, sensitivity), (b, _) in zip(*told, strict=True):
        assert np.linalg.norm((b - a).astype(float)) <= sensitivity


def test_all_counts_of_public_words_cost_what_their_plan_says_and_no_threshold():
    plan = TextPlan(0.7, 0.0, 1)
    assert plan.events == (Gaussian(0.7, 1),)
    odometer = Odometer(plan.events)
    table = replace(rows(["x"] * 300, 12), texts=(), most=9)
    read = Read(10, np.arange(600) % 10, np.arange(600) // 2)
    counts = measuring.measure_words(table, read, plan, odometer)  # more would raise NotCharged
    assert len(counts.columns) == len(counts.by_column) == measuring.MOST_COLUMNS
    assert counts.totals.cells.shape == (10,)
    with pytest.raises(NotCharged):
        measuring.measure_words(table, read, plan, odometer)


def test_all_counts_of_a_column_cost_at_most_what_its_plan_says():
    plan = TextPlan(0.7, 1e-9, 1)
    odometer = Odometer(plan.events)
    measuring.measure(rows([*SENTENCES] * 50), plan, 300, odometer)  # more would raise NotCharged
    with pytest.raises(NotCharged):
        measuring.measure(rows([*SENTENCES] * 50), plan, 300, odometer)


def test_what_many_rows_hold_is_released_and_what_one_row_holds_never_comes_out_of_ten_thousand_draws():
    canary = "zyxwq met quarkfjord77 vlkbtr"
    found = rows([*["the cat sat on the mat", "a dog ran to the cat"] * 1_000, canary], 1)
    counts = measured(found)
    assert {" cat", " the", " dog"} <= set(counts.vocabulary.words)
    assert not {"zyxwq", " quarkfjord77", " vlkbtr"} & set(counts.vocabulary.words)
    rng = np.random.default_rng()
    writer = fitting.fit(
        counts,
        name="note",
        most=60,
        merged=[(0, (0, 1))],
        count=len(found.texts),
        lengths=np.full(61, 1 / 61),
        rng=rng,
    )
    texts = writer.write(np.zeros((10_000, 1), np.int64), np.full(10_000, len(canary)), rng)
    assert not [t for t in texts if "zyxwq" in t or "quarkfjord" in t or "vlkbtr" in t]


def test_shapes_that_enough_rows_have_are_released_and_are_filled_as_they_were():
    rng = np.random.default_rng(5)
    texts = [f"{'AB'[rng.integers(2)]}K-{rng.integers(1000):03d}" for _ in range(3_000)]
    counts = measured(rows(texts, 1))
    assert counts.shapes == ("AA-000",)
    lengths = np.zeros(61)
    lengths[6] = 1.0
    writer = fitting.fit(counts, name="code", most=60, merged=[(0, (0, 1))], count=3_000, lengths=lengths, rng=rng)
    drawn = writer.write(np.zeros((500, 1), np.int64), np.full(500, 6), rng)
    good = [t for t in drawn if tokens.shape(t) == "AA-000"]
    assert len(good) > 450
    assert np.mean([t[0] in "AB" and t[1] == "K" for t in good]) > 0.95


def test_a_tie_between_noisy_counts_does_not_tell_in_which_order_rows_came(monkeypatch):
    def alike(histograms, **_):
        return [np.full(len(h), 10**9) for h in histograms], None

    monkeypatch.setattr(mechanisms, "noisy_histograms", alike)
    texts, plan = ["AB-12", "7 X", "Q9"], TextPlan(1.0, 1e-9, 1)
    passes = [measuring._Pass(rows(order), plan, Odometer(plan.events)) for order in (texts, texts[::-1])]
    first, second = (taken.shapes()[0] for taken in passes)
    assert len(first) == 3
    assert first == second


def test_a_few_codes_among_sentences_leave_most_to_words():
    counts = measured(rows([*["the cat sat on the mat"] * 300, *["AB-12", "CD-34"] * 40]))
    assert counts.shapes == ("AA-00",)
    assert " cat" in counts.vocabulary.words


def test_the_examples_of_the_modules_hold():
    assert doctest.testmod(tokens).failed == doctest.testmod(measuring).failed == 0

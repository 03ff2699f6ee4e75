"""What a language model writes is checked before it leaves, and what is kept of it is adapters, a path and a hash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dp_synth_pipeline.model.language.drawing import Drawn, Wanted
from dp_synth_pipeline.synthesis import note_writer
from dp_synth_pipeline.synthesis.note_writer import NoteWriter, WordLeanings
from dp_synth_pipeline.texts.leanings import Leanings
from dp_synth_pipeline.texts.measuring import Counted, WordCounts
from dp_synth_pipeline.texts.prompts import Prompts

PROMPTS = Prompts((1, 0), ("note: length", "place"), (("0", "20"), ("home", "ward")))


class Says:
    """A model that says the same in each round, and remembers what it was asked."""

    def __init__(self, *rounds: str) -> None:
        self.rounds, self.asked = list(rounds), []

    def write(self, prompts: list[str], rng: np.random.Generator) -> list[str]:
        self.asked.append(prompts)
        said = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        return [said] * len(prompts)


def writer(model: Any = None) -> NoteWriter:
    found = NoteWriter("note", "here", "0" * 64, 4, 8, 12, PROMPTS, {"a": np.ones((2, 3), np.float32)})
    if model is not None:
        found.begin(model)
    return found


def test_texts_have_no_control_characters_and_are_cut() -> None:
    model = Says("a\x00bell\x07\u200b\n  rang \x1b[31m red")
    codes = np.array([[1, 1], [0, 0]])
    texts = writer(model).write(codes, np.array([20, 0]), np.random.default_rng())
    assert texts == ["abell rang [", ""]
    assert model.asked == [["note: length: 20; place: ward\n"]]


def test_a_text_with_the_form_of_an_identifier_is_written_anew_and_in_the_end_left_empty() -> None:
    codes, lengths, rng = np.array([[1, 1]]), np.array([20]), np.random.default_rng()
    assert writer(Says("a@b-cde.org", "slept well")).write(codes, lengths, rng) == ["slept well"]
    hopeless = Says("a@b-cde.org")
    assert writer(hopeless).write(codes, lengths, rng) == [""]
    assert len(hopeless.asked) == 1 + note_writer.AGAIN


class Draws:
    """A model of a token that ends, tokens of ten characters, and texts of as many of them as it is told, in turn."""

    network, device = SimpleNamespace(vocabulary=4), "cpu"

    def __init__(self, *sizes: int) -> None:
        self.sizes, self.asked = list(sizes), []

    def draw(self, prompts: list[str], wanted: Wanted, rng: np.random.Generator) -> list[Drawn]:
        self.asked.append((len(prompts), wanted))
        drawn = []
        for _ in prompts:
            size = self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]
            ends = np.append(np.full(size, 1e-9), 0.9)
            drawn.append(Drawn(np.full(size, 2), ends, 10 * np.arange(size + 1)))
        return drawn

    def decode(self, rows: list[np.ndarray]) -> list[str]:
        return ["ten chars." * len(row) for row in rows]


LEANING = WordLeanings(
    np.array([2]), Leanings(((1, (0, 1)),), (np.zeros((2, 2), np.float32),), (np.array([[0.9, 0.1], [0.1, 0.9]]),))
)


def leaning(model: Draws) -> NoteWriter:
    found = replace(writer(), words=LEANING, most=200)
    found.begin(cast(Any, model))
    return found


def test_a_text_that_is_far_too_short_is_written_anew_and_the_nearest_is_kept() -> None:
    codes, rng = np.array([[1, 1]]), np.random.default_rng()
    model = Draws(1, 5, 2)
    assert leaning(model).write(codes, np.array([50]), rng) == ["ten chars." * 5]
    assert len(model.asked) == 2
    model = Draws(5, 1, 9)
    assert leaning(model).write(np.array([[1, 1], [1, 0]]), np.array([50, 90]), rng) == [
        "ten chars." * n for n in (5, 9)
    ]
    np.testing.assert_array_equal(model.asked[1][1].lengths, [90])
    hopeless = Draws(1, 3, 2)
    assert leaning(hopeless).write(codes, np.array([100]), rng) == ["ten chars." * 3]
    assert len(hopeless.asked) == 1 + note_writer.LONGER


def test_a_text_ends_sooner_only_where_it_is_likely_to() -> None:
    rng, characters = np.random.default_rng(), 10 * np.arange(6)
    likely = Drawn(np.full(5, 2), np.array([0.5, 1e-6, 0.5, 1e-6, 1e-6, 0.9]), characters)
    ends = {note_writer._end(likely, 20.0, rng) for _ in range(200)}
    assert 2 in ends
    assert not ends & {0, 1, 3, 4}
    nothing = Drawn(np.zeros(0, np.int64), np.array([0.9]), np.zeros(1, np.int64))
    assert note_writer._end(nothing, 20.0, rng) == 0


def test_what_a_row_leans_to_is_what_its_code_says() -> None:
    model = Draws(5)
    found = leaning(model)
    weights = np.array([[0.5, 0.0], [-0.5, 0.0]], np.float32)
    found.words = replace(LEANING, leanings=replace(LEANING.leanings, weights=(weights,)))
    found.write(np.array([[1, 1], [1, 0]]), np.array([50, 51]), np.random.default_rng())
    ((_, wanted),) = model.asked
    np.testing.assert_array_equal(wanted.leans, [[-0.5, 0.0], [0.5, 0.0]])
    np.testing.assert_array_equal(wanted.words, [1, 1, 0, 1])


def test_raking_moves_what_a_row_leans_to_and_leaves_the_writer_as_it_was() -> None:
    found = leaning(Draws(5))
    codes, told = np.array([[1, 0], [1, 1]] * 90), []
    raked = found.raked(codes, np.full(180, 50), np.random.default_rng(), lambda *done: told.append(done))
    assert raked.words is not None
    weights = raked.words.leanings.weights[0]
    assert weights[1, 0] < weights[1, 1]  # of these rows, word 0 was to be a tenth, and was all
    assert weights[0, 0] - weights[0, 1] > weights[1, 0] - weights[1, 1]
    assert found.words is LEANING
    assert told == [(n + 1, note_writer.ROUNDS) for n in range(note_writer.ROUNDS)]


def test_counts_that_noise_may_explain_are_one_word_together() -> None:
    totals = Counted(np.array([10_000.0, 50.0, 9_000.0, -20.0, 60.0]), 100.0)
    by = Counted(np.array([[9_000.0, 1_000], [20, 30], [1_000, 8_000], [-10, -10], [0, 60]]), 50.0)
    found = WordLeanings.of(WordCounts(totals, (0,), (by,)), [(1, (0, 1))])
    np.testing.assert_array_equal(found.known, [0, 2])
    np.testing.assert_array_equal(found.word_of(5), [0, 2, 1, 2, 2])
    weights = found.leanings.weights[0]
    assert weights.shape == (2, 3)
    assert weights[0, 0] > 0.4 > -0.4 > weights[1, 0]
    assert np.abs(weights[:, 2]).max() < 0.2


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / note_writer.NOTES
    writer().save(path)
    (found,) = note_writer.written_by(tmp_path)
    np.testing.assert_array_equal(found.arrays.pop("a"), np.ones((2, 3)))
    kept = writer()
    kept.arrays = {}
    assert kept.words is None
    assert found == kept
    assert note_writer.written_by(tmp_path / "elsewhere") == []


def test_a_prompt_says_of_a_row_what_its_own_codes_say() -> None:
    rows = PROMPTS.say(np.array([[0, 1], [1, 0]]))
    assert rows == ["note: length: 20; place: home\n", "note: length: 0; place: ward\n"]
    assert len(PROMPTS.longest()) >= max(map(len, rows))


@pytest.mark.parametrize("text", ["", "\x00", " \n"])
def test_a_text_of_nothing_is_empty(text: str) -> None:
    assert note_writer.checked(text, 5) == ""


def test_what_a_writer_leans_to_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / note_writer.NOTES
    replace(writer(), words=LEANING).save(path)
    (found,) = note_writer.written_by(tmp_path)
    assert list(found.arrays) == ["a"]
    assert found.words is not None
    np.testing.assert_array_equal(found.words.known, LEANING.known)
    assert found.words.leanings.merged == LEANING.leanings.merged
    np.testing.assert_array_equal(found.words.leanings.targets[0], LEANING.leanings.targets[0])

"""What a language model writes is checked before it leaves, and what is kept of it is adapters, a path and a hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_synth_pipeline.synthesis import note_writer
from dp_synth_pipeline.synthesis.note_writer import NoteWriter
from dp_synth_pipeline.tabular.texts.prompts import Prompts

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


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / note_writer.NOTES
    writer().save(path)
    (found,) = note_writer.written_by(tmp_path)
    np.testing.assert_array_equal(found.arrays.pop("a"), np.ones((2, 3)))
    kept = writer()
    kept.arrays = {}
    assert found == kept
    assert note_writer.written_by(tmp_path / "elsewhere") == []


def test_a_prompt_says_of_a_row_what_its_own_codes_say() -> None:
    rows = PROMPTS.say(np.array([[0, 1], [1, 0]]))
    assert rows == ["note: length: 20; place: home\n", "note: length: 0; place: ward\n"]
    assert len(PROMPTS.longest()) >= max(map(len, rows))


@pytest.mark.parametrize("text", ["", "\x00", " \n"])
def test_a_text_of_nothing_is_empty(text: str) -> None:
    assert note_writer.checked(text, 5) == ""

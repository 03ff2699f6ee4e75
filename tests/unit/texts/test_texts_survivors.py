"""Rows get texts that survived: those of their own group, by votes, of about the length that was drawn for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dp_synth_pipeline.texts import survivors
from dp_synth_pipeline.texts.evolution import Candidates
from dp_synth_pipeline.texts.survivors import Survivors

LONG = "walked a very long way home " * 5 + "and slept"
CANDIDATES = Candidates(
    ("slept well", "went home", LONG, "a rash", "", "pain"),
    np.array([0, 0, 1, 2, 2, 2]),
    np.array([0, 0, 0, 1, 1, 1]),
)
HOW = {"name": "note", "most": 200, "sha256": "0" * 64, "column": 1, "merged": (0, 0, 1)}


def kept(*votes: float, **how) -> Survivors:
    return Survivors.of(CANDIDATES, np.array(votes), **{**HOW, **how})


def written(writer: Survivors, code: int, length: int, rows: int = 400) -> set[str]:
    codes = np.tile([7, code], (rows, 1))
    return set(writer.write(codes, np.full(rows, length), np.random.default_rng()))


def test_only_candidates_with_votes_are_released():
    found = kept(3.0, 0.0, 1.0, 2.0, 5.0, 0.0)
    assert found.texts == ("slept well", LONG, "a rash")
    assert found.votes == (3.0, 1.0, 2.0)


def test_a_group_in_which_none_had_votes_keeps_what_was_written_for_it():
    assert kept(1.0, 0.0, 0.0, 0.0, 9.0, 0.0).texts == ("slept well", "a rash", "pain")
    silent = Survivors.of(
        Candidates(("", ""), np.zeros(2, int), np.zeros(2, int)), np.zeros(2), **HOW | {"column": None}
    )
    assert written(replace(silent, merged=(0,)), 0, 9) == {""}


def test_a_row_gets_a_text_of_its_group_and_about_its_length():
    found = kept(3.0, 3.0, 3.0, 2.0, 0.0, 2.0)
    assert written(found, 2, 5) == {"a rash", "pain"}
    assert written(found, 0, 9) == {"slept well", "went home"}
    assert written(found, 1, len(LONG), rows=20) == {LONG}  # each other one has e^-17 of its weight, so 1e-6 in all
    assert written(found, 1, 0) == {""}
    assert written(replace(found, column=None, merged=(0,), groups=(0,) * 5), 9, 9) >= {"slept well", "went home"}


def test_texts_are_drawn_by_their_votes():
    """Of 40,000 draws, the share is off by 0.03 with a chance of 2 exp(-2 * 40,000 * 0.03**2) = 1e-31 (Hoeffding)."""
    found = Survivors.of(
        Candidates(("slept", "walks"), np.zeros(2, int), np.zeros(2, int)),
        np.array([9.0, 1.0]),
        **{**HOW, "merged": (0,)},
    )
    texts = found.write(np.zeros((40_000, 2), int), np.full(40_000, 5), np.random.default_rng())
    assert abs(texts.count("slept") / 40_000 - 0.9) < 0.03


def test_what_is_kept_is_read_back(tmp_path: Path):
    found = kept(3.0, 0.0, 1.0, 2.0, 5.0, 0.0)
    found.save(tmp_path / survivors.FILE)
    assert survivors.beside(tmp_path) == [found]
    assert survivors.beside(tmp_path / "elsewhere") == []

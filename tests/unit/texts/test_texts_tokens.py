"""Texts as they are counted: in one line, composed, and cut."""

from __future__ import annotations

import time
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.tabular import text_lengths

ORDINARY = st.text(st.characters(exclude_categories=["Cs", "Mn", "Mc", "Me"]), max_size=60)
COMPOSED_OF_FOUR = st.text("\u1f82\u1fa7\u01d5\u1e69\ud55c \u00e9x", max_size=60)


def plainly(text: str, most: int) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split()))[:most].rstrip()


def test_a_cell_of_nothing_but_marks_is_cut_before_it_takes_hours_to_compose() -> None:
    started = time.process_time()
    assert text_lengths.cleaned("a" + "\u0301\u0316" * 100_000, 80) == "\u00e1" + "\u0316" * 79
    assert time.process_time() - started < 1


@given(ORDINARY | COMPOSED_OF_FOUR, st.sampled_from(["NFC", "NFD"]), st.integers(1, 30))
def test_an_ordinary_text_is_composed_and_then_cut(text: str, form: str, most: int) -> None:
    spelled = unicodedata.normalize(form, text)  # type: ignore[arg-type]
    assert text_lengths.cleaned(spelled, most) == plainly(text, most)

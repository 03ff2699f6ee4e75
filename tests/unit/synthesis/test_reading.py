"""What is told of columns: of which hardly anything but nulls is drawn, and which dates were found to hang on others."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dp_synth_pipeline.synthesis.reading import dates_sentence, may_hang, warnings_about
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.kinds import lookup
from dp_synth_pipeline.tabular.policies import OtherPolicy
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema

NUMBERS, TEXTS = {"integer": "int64", "date": "date32", "duration": "duration[us]"}, {"category": "string"}


def warned(kind: str, policy: OtherPolicy = OtherPolicy.DROP, read: str = "c", **released: Any) -> list[str]:
    """Return what is said of one column "c"."""
    schema = TableSchema((Column("c", lookup(kind), {**NUMBERS, **TEXTS}[kind], other=policy),))
    return warnings_about(schema, TableProfile(9, 9, "row", (ColumnProfile("c", lookup(kind), **released),)), read)


@pytest.mark.parametrize("kind", NUMBERS)
def test_of_numbers_that_noise_hides_the_ends_may_be_declared(kind: str) -> None:
    (said,) = warned(kind, values=(), weights=(), other=0.9, null_rate=0.1)
    assert re.search("too few for this much noise.* only nulls are drawn: c.* as lower and upper", said)


def test_of_text_that_noise_hides_a_kind_or_its_values_may_be_declared() -> None:
    (said,) = warned("category", values=(), weights=(), other=0.9, null_rate=0.1)
    assert re.search("no value is frequent enough.* only nulls are drawn: c.* kind: date.* declare its values", said)


def test_a_column_of_nulls_is_told_as_one_and_one_with_values_is_not_told() -> None:
    (said,) = warned("integer", values=(), weights=(), null_rate=1.0)
    assert said.startswith("Nulls, and hardly anything else: c.")
    assert warned("integer", read="", values=(), weights=(), null_rate=1.0) == [], "what is derived has no cells"
    assert warned("integer", values=(1,), weights=(0.9,), null_rate=0.1) == []
    assert warned("integer", values=(), weights=(), bins=((0.0, 9.0),), bin_weights=(0.9,), null_rate=0.1) == []


def test_where_most_values_are_too_rare_to_be_released_a_reader_is_told_that_others_stand_for_them() -> None:
    released: dict[str, Any] = {"values": ("a", "b"), "weights": (0.2, 0.1), "other": 0.5, "null_rate": 0.2}
    (said,) = warned("category", **released)
    assert re.search(r"too rare to be released.* too often: c \(62 % of the values; 2 are released\)\.", said)
    assert "other: draw" in said
    assert warned("category", **{**released, "weights": (0.4, 0.2), "other": 0.2}) == []
    assert warned("category", policy=OtherPolicy.DRAW, **released) == []


def dated(*hanging: tuple[str, str, str]) -> TableSchema:
    """Return four dates and a number; of some, the column, the fact and the base that it hangs on."""
    facts = {name: {fact: base} for name, fact, base in hanging}
    dates = [Column(name, lookup("date"), "date32", **facts.get(name, {})) for name in "abcd"]
    return TableSchema((*dates, Column("n", lookup("integer"), "int64")))


def settings(columns: dict[str, Any], **more: Any) -> ReleaseSettings:
    return ReleaseSettings(table="t", source="t.parquet", account="t", epsilon=1, columns=columns, **more)


def test_a_date_may_hang_unless_a_person_said_on_what_or_that_others_hang_on_it() -> None:
    assert may_hang(settings({}), dated()) == {"a", "b", "c", "d"}
    declared = {"a": {"after": False}, "b": {"after": "c"}, "d": {"lower": "2020-01-01"}}
    assert may_hang(settings(declared), dated()) == {"d"}
    blocks = {"partitions": {"column": "d", "cadence": "weekly", "start": "2026-01-05"}}
    assert may_hang(settings({}, **blocks), dated()) == {"a", "b", "c"}, "a row stays in its partition"


def test_what_was_found_is_told_with_what_keeps_it_and_what_undoes_it_and_what_was_declared_is_not() -> None:
    assert dates_sentence(settings({}), dated()) == ""
    said = dates_sentence(settings({}), dated(("b", "after", "a"), ("c", "same_as", "a")))
    assert "b is never before a, c is the same as a" in said
    assert "after: false" in said
    assert "columns: {b: {after: a}}" in said
    assert dates_sentence(settings({"b": {"after": "a"}}), dated(("b", "after", "a"))) == ""

"""A column of which hardly anything but nulls is drawn is told with its cause, and with what to declare."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dp_synth_pipeline.synthesis.reading import warnings_about
from dp_synth_pipeline.tabular.kinds import lookup
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema

NUMBERS, TEXTS = {"integer": "int64", "date": "date32", "duration": "duration[us]"}, {"category": "string"}


def warned(kind: str, **released: Any) -> list[str]:
    """Return what is said of one column "c"."""
    schema = TableSchema((Column("c", lookup(kind), {**NUMBERS, **TEXTS}[kind]),))
    return warnings_about(schema, TableProfile(9, 9, "row", (ColumnProfile("c", lookup(kind), **released),)))


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
    assert warned("integer", values=(1,), weights=(0.9,), null_rate=0.1) == []
    assert warned("integer", values=(), weights=(), bins=((0.0, 9.0),), bin_weights=(0.9,), null_rate=0.1) == []

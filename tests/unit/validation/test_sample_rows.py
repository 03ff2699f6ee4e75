"""A few rows of both tables as text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dp_synth_pipeline.validation import sample_rows as module
from dp_synth_pipeline.validation.sample_rows import sample_rows
from tests.unit.validation.tables import good, schema


def drawn(real: pd.DataFrame | None = None) -> module.SampleRows:
    arrow = good().to_pandas(types_mapper=pd.ArrowDtype) if real is None else real
    return sample_rows(arrow, good(1).to_pandas(), schema(), np.random.default_rng(0))


def test_ten_rows_of_each_table_are_drawn_whole() -> None:
    found = drawn()
    assert found.names == [c.name for c in schema().learned]
    assert len(found.real) == len(found.synthetic) == 10
    held = {(str(s), str(g)) for s, g in zip(good()["sector"].to_pylist(), good()["grade"].to_pylist(), strict=True)}
    at, by = found.names.index("sector"), found.names.index("grade")
    assert {(row[at], row[by]) for row in found.real} <= held


def test_values_are_short_text_and_what_is_missing_is_none() -> None:
    real = good().to_pandas().assign(sector="x" * 99, age=None)
    found = drawn(real)
    assert {row[found.names.index("sector")] for row in found.real} == {"x" * (module.LONGEST - 1) + "…"}
    assert {row[found.names.index("age")] for row in found.real} == {None}
    assert all(len(v) == 10 for row in found.real if (v := row[found.names.index("joined")]))


def test_a_wide_table_shows_its_first_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COLUMNS", 3)
    found = drawn()
    assert len(found.names) == len(found.real[0]) == 3
    assert found.left_out == len(schema().learned) - 3

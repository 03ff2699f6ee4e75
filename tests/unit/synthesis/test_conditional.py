"""Rows that are chosen on a condition keep their codes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.synthesis.conditional import Found


def test_values_and_codes_stay_together_however_rows_are_chosen() -> None:
    whole = Found(pa.table({"x": list("abcd")}), np.arange(4)[:, None])
    first, rest = whole.filter(np.array([True, False, True, True])).split(1)
    found = rest.take(np.array([1, 0, 0])).and_(first)
    assert found.rows["x"].to_pylist() == ["d", "c", "c", "a"]
    assert found.codes[:, 0].tolist() == [3, 2, 2, 0]

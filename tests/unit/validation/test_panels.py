"""Bars of one column: at round steps where doubles have any, and always somewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.tabular.schema import Kind, build
from dp_synth_pipeline.validation import panels
from dp_synth_pipeline.validation.panels import Panel, panel

FEW = [float(i) for i in range(20)]
MOST = 1.7e308
TINY = 5e-324

ODD = {
    "one large integer": [9999999999999999] * 7000 + list(range(20)),
    "one large number": [1e300] * 7000 + FEW,
    "both ends of doubles": [MOST] * 30 + [-MOST] * 30 + FEW,
    "denormals": [TINY * i for i in range(100)],
}


def drawn(values: list[float] | list[int]) -> Panel:
    column = build({"x": pa.array(values).type})["x"]
    with np.errstate(all="ignore"):
        return panel(column, pd.Series(values), pd.Series(values), 0.0)


@pytest.mark.parametrize("values", ODD.values(), ids=ODD)
def test_numbers_at_the_ends_of_doubles_are_drawn(values: list[float]) -> None:
    bars = drawn(values)
    assert sum(bars.real) == pytest.approx(1, abs=1e-4)
    assert bars.real == bars.synthetic
    assert len(set(bars.labels)) == len(bars.labels) < 40
    assert not [label for label in bars.labels if "nan" in label or "inf" in label]


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (9999999999999999.0, 9999999999999999.0),
        (1e300, 1e300),
        (-1e300, -1e300),
        (-MOST, MOST),
        (MOST, MOST),
        (0.0, TINY),
        (TINY, 99 * TINY),
        (1.0, np.nextafter(1.0, 2)),
        (2.0**60, 2.0**60 + 512),
    ],
)
def test_edges_ascend_and_are_finite_however_far_the_numbers_lie(low: float, high: float) -> None:
    for kind in (Kind.DECIMAL, Kind.INTEGER):
        with np.errstate(all="ignore"):
            edges = panels._even(low, high, kind)
        assert 1 <= len(edges) <= panels.BARS + 2
        assert np.isfinite(edges).all()
        assert (np.diff(edges / 2) > 0).all() or (np.diff(edges) > 0).all()


@pytest.mark.parametrize(
    ("low", "high", "kind", "expected"),
    [
        (0, 100, Kind.INTEGER, range(0, 101, 5)),
        (18, 79, Kind.INTEGER, range(15, 81, 5)),
        (26, 50, Kind.INTEGER, range(26, 51)),
        (-50, -26, Kind.DECIMAL, range(-50, -25)),
        (-3, 7, Kind.DECIMAL, [i / 2 for i in range(-6, 15)]),
        (0, 1, Kind.DECIMAL, [i / 20 for i in range(21)]),
        (13, 25, Kind.DECIMAL, [i / 2 for i in range(26, 51)]),
        (5, 5, Kind.DECIMAL, [i / 20 for i in range(100, 121)]),
        (19_000, 19_365, Kind.DATE, range(19_000, 19_381, 20)),
        (0, 48 * 86_400, Kind.DATETIME, range(0, 49 * 86_400, 2 * 86_400)),
    ],
)
def test_an_ordinary_range_is_cut_at_round_numbers(low: float, high: float, kind: Kind, expected: list[float]) -> None:
    assert panels._even(float(low), float(high), kind).tolist() == pytest.approx(list(expected), rel=1e-12)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=20, max_size=60))
def test_any_finite_numbers_are_drawn(values: list[float]) -> None:
    assert sum(drawn(values).real) == pytest.approx(1, abs=1e-4)

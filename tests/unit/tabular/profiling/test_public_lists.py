"""A column whose name says that it holds states or countries has them all, if noisy counts say that it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.tabular.profiling import measure, public_lists
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from tests.unit.tabular.snapshots import profile, take

ROWS, NOISE = 6_000, 30.0
STATES = public_lists.of("state")[0]


def states(rows: int = ROWS) -> np.ndarray:
    shares = 1 / np.arange(2, 53)
    return np.random.default_rng().choice(STATES[:51], rows, p=shares / shares.sum())


def found(name: str, values: Any, folder: Path, scale: float = NOISE) -> ColumnProfile:
    table = take(pa.table({name: pa.array(values, pa.string())}), folder)
    return profile(table, ProfilePlan(None, scale, 1e-6, population=len(values)))[name]


def distance(column: ColumnProfile, values: np.ndarray) -> float:
    shares = dict(zip(column.values, column.weights, strict=True))
    names, counts = np.unique(values, return_counts=True)
    real = dict(zip(names, counts / len(values), strict=True))
    return sum(abs(shares.get(v, 0) - real.get(v, 0)) for v in {*shares, *real}) / 2


@pytest.mark.parametrize("name", ["state", "State", "birth_state", "state_code", "addrState", "STATE_ABBR"])
def test_a_name_says_what_is_listed_in_any_spelling(name: str) -> None:
    assert public_lists.of(name) == public_lists.of("state")


@pytest.mark.parametrize("name", ["status", "state_of_mind", "interstate", "estate", "stated", ""])
def test_other_names_list_nothing(name: str) -> None:
    assert public_lists.of(name) == ()


def test_lists_have_no_entry_twice_and_are_spelled_in_several_ways() -> None:
    for name in ("state", "country", "nationality", "currency"):
        lists = public_lists.of(name)
        assert all(len(set(values)) == len(values) > 40 for values in lists)
    assert {v for values in public_lists.of("country") for v in values} >= {
        "DE",
        "de",
        "DEU",
        "deu",
        "Germany",
        "GERMANY",
    }


def test_all_states_are_drawn_where_noise_hides_most_of_them(tmp_path: Path) -> None:
    values = states()
    listed, hidden = found("state", values, tmp_path), found("place", values, tmp_path)
    assert len(hidden.values) < 15
    assert set(listed.values) >= set(STATES[:51])
    assert distance(listed, values) < distance(hidden, values) * 2 / 3, "two fifths, give or take a twentieth"
    assert listed.other < 0.15, "noise of all fifty"


def test_a_list_that_a_column_does_not_hold_adds_nothing(tmp_path: Path) -> None:
    values = np.random.default_rng().choice(["open", "closed"], ROWS)
    assert set(found("state", values, tmp_path).values) == {"open", "closed"}
    mixed = np.where(np.random.default_rng().random(ROWS) < 0.6, states(), "elsewhere")
    assert len(found("state", mixed, tmp_path).values) < 15


def test_values_beside_the_list_are_found_as_they_ever_were(tmp_path: Path) -> None:
    values = np.where(np.random.default_rng().random(ROWS) < 0.04, "Ontario", states())
    assert {"Ontario", "WY", "CA"} <= set(found("state", values, tmp_path, 10.0).values)


@pytest.mark.parametrize("rows", [40, 300])
def test_noise_alone_makes_no_column_a_list(rows: int, tmp_path: Path) -> None:
    values = [f"v{i}" for i in range(rows)]
    assert [found("state", values, tmp_path, 60.0).values for _ in range(10)] == [()] * 10


def test_a_row_of_a_listed_value_moves_its_count_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is not listed counts from some rows on only, so that its threshold lies higher."""
    counted: list[dict[str, int]] = []
    honest = measure._Pass._named

    def named(self: Any, column: Any, factor: float) -> Any:
        monkeypatch.setattr(self, "_noisy", lambda exact, factor=1.0: exact)
        keys, exact = honest(self, column, factor)
        counted.append(dict(zip(keys, exact[1:].tolist(), strict=True)))
        return keys, exact

    monkeypatch.setattr(measure._Pass, "_named", named)
    floor = round(NOISE / 4)
    for rows in range(floor - 2, floor + 2):
        found("state", ["CA"] * 3_000 + ["WY"] * rows + ["Ontario"] * rows, tmp_path)
    assert [c["WY"] for c in counted] == list(range(floor - 2, floor + 2))
    assert [c.get("Ontario", 0) for c in counted] == [0, 0, floor, floor + 1]

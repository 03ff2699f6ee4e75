"""Names that all rows of a person tell: what one person alone holds is shown with a probability of at most delta, and one
person more moves the weights of all values by one at most (L2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular.profiling import counting, measure
from dp_synth_pipeline.tabular.profiling.counting import MOST_VALUES, WHOLE, HistoryValues
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import build
from tests.adversarial.distinguish import ALPHA, lower

pytestmark = pytest.mark.slow

SCHEMA = build({"code": pa.string()}, {"code": {"kind": "category"}})
(CODE,) = SCHEMA.columns
DELTA, LONE, KEYS, TIMES = 2e-2, 2_000, 6, 8


def written(path: Path, held: dict[int, list[str]]) -> Path:
    rows = [(person, code) for person, codes in held.items() for code in codes]
    pq.write_table(pa.table({"unit": [r[0] for r in rows], "code": [r[1] for r in rows]}), path)
    return path


def values(path: Path, most: int = 100) -> HistoryValues:
    return HistoryValues(path, "unit", most)


def test_one_person_more_moves_all_weights_together_by_one_at_most(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    codes = [f"c{i}" for i in range(80)]
    first = {p: rng.choice(codes, 1 + p % 30).tolist() for p in range(300)}
    for more in (["c1"], ["c1"] * 50, codes[:3], codes[:31], [*codes, "c1"] * 2):
        here = values(written(tmp_path / "a.parquet", first)).weights(CODE, ["c0", "nobody's"], 1)
        there = values(written(tmp_path / "b.parquet", {**first, 900: more})).weights(CODE, ["c0", "nobody's"], 1)
        moved = np.array([there[c] - here[c] for c in codes])
        assert 0.99 * WHOLE <= np.linalg.norm(moved) <= WHOLE
        assert list(here)[:2] == list(there)[:2] == ["c0", "nobody's"]
        assert here["nobody's"] == there["nobody's"] == 0


def test_of_one_person_few_values_are_counted_whatever_the_others_have(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {1: [f"c{i}" for i in range(500)], 2: ["d", "d", "e"]})
    found = values(path).weights(CODE, [], 1)
    assert sum(code.startswith("c") for code in found) == MOST_VALUES
    assert sum(w**2 for code, w in found.items() if code.startswith("c")) <= WHOLE**2
    assert found["d"] == found["e"] == pytest.approx(WHOLE / np.sqrt(2), abs=1)
    assert (values(path).most, values(path, 3).most) == (MOST_VALUES, 3)


def test_a_value_that_fewer_persons_have_is_no_candidate_unless_it_is_known(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {p: ["common", *(["rare"] if p < 4 else [])] for p in range(9)})
    assert list(values(path).weights(CODE, [], 5)) == ["common"]
    assert list(values(path).weights(CODE, ["rare"], 5)) == ["rare", "common"]


def plan(scale: float = 6.0, named: int = 1) -> ProfilePlan:
    return ProfilePlan(None, scale, DELTA, population=LONE + 4000, named=named)


def profile(folder: Path, held: dict[int, list[str]], asked: ProfilePlan, most: int = KEYS) -> Any:
    rows = written(folder / "rows.parquet", held)
    first = pa.table({"code": ["common"] * asked.population})  # one row of each, which tells of no other name
    pq.write_table(first, folder / "each.parquet")
    odometer = Odometer((*asked.count_events(), *asked.histogram_events(SCHEMA)))
    return measure.measure(folder / "each.parquet", SCHEMA, asked, asked.population, odometer, values(rows, most))[
        "code"
    ]


def lone_shown(folder: Path, keys: int, held: int) -> float:
    """Return a lower bound of the rate at which anything that a person alone holds is shown, by as many as `LONE` persons.

    Args:
        held: how many others hold each of these values, whose weight is whole.
    """
    alone = {p: [f"{p}-{k}" for k in range(keys)] for p in range(LONE)}
    others = {LONE + p * keys * held + i: [v] for p, vs in alone.items() for i, v in enumerate(vs * held)}
    shown = 0
    for _ in range(TIMES):
        found = profile(folder, {**alone, **others, -1: ["common"]}, plan())
        shown += len({str(v).split("-")[0] for v in found.values} - {"common"})
    assert shown, "the trials are no idle ones: some do show"
    return float(lower(shown, LONE * TIMES, ALPHA))


@pytest.mark.parametrize(("keys", "held"), [(1, 1), (KEYS, 1)])
def test_what_one_person_makes_a_candidate_is_shown_with_a_probability_of_at_most_delta(
    tmp_path: Path, keys: int, held: int
) -> None:
    assert round(6.0 / 4) == 2, "with this noise two holders make a candidate, and one is there"
    assert lone_shown(tmp_path, keys, held) <= DELTA


def for_one_key(scale: float, delta: float, *, keys: int, **rest: Any) -> float:
    """A threshold that forgets that a person has several values."""
    return HONEST(scale, delta, keys=1, **rest)


def without_floor(scale: float, delta: float, **rest: Any) -> float:
    """A threshold that starts as if nobody else held a candidate."""
    return HONEST(scale, delta, **rest) - 10.0


HONEST = mechanisms.threshold_of_divided


@pytest.mark.parametrize("mutant", [for_one_key, without_floor])
def test_a_threshold_that_is_too_low_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable
) -> None:
    monkeypatch.setattr(mechanisms, "threshold_of_divided", mutant)
    assert lone_shown(tmp_path, KEYS if mutant is for_one_key else 1, 1) > DELTA


def test_weights_that_are_not_divided_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "WHOLE", WHOLE * 100)
    with pytest.raises(AssertionError):
        test_one_person_more_moves_all_weights_together_by_one_at_most(tmp_path)

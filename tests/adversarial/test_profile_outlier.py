"""One person who is unlike everybody else does not show: not by name, not in the bounds, not as the only null."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import beta, binom

from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from tests.unit.tabular.snapshots import no_noise, profile, profiles, quiet, take

ROWS = 300
NAMED = "canary-of-Kirchheim"
PAID = 1048577.25


def rows(outlier: bool, times: int = 1) -> pa.Table:
    n = ROWS - times * outlier
    return pa.table(
        {
            "place": pa.array(["Ulm", "Bonn", "Ulm"] * (n // 3) + ["Ulm"] * (n % 3) + [NAMED] * times * outlier),
            "paid": pa.array([float(i % 90) + 0.5 for i in range(n)] + [PAID] * times * outlier),
            "who": pa.array(list(range(n)) + [n] * times * outlier),
        }
    )


def numbers(told: Any) -> set[float]:
    """Return all numbers of some JSON. Among the digits of a hundred profiles any seven stand once in a few hundred runs."""
    if isinstance(told, dict | list):
        return set().union(*map(numbers, told.values() if isinstance(told, dict) else told))
    return {float(told)} if isinstance(told, int | float) else set()


def test_what_one_person_alone_holds_is_in_no_profile(tmp_path: Path) -> None:
    snapshot = take(rows(True), tmp_path, {"who": {"kind": "identifier"}})
    plan = ProfilePlan(None, 4.0, 1e-9, population=ROWS)
    # In 100 runs any value of one row alone is named with a probability of at most 100 * 1e-9.
    for found in profiles(snapshot, plan, 100):
        assert NAMED not in found.to_json()
        assert not [n for n in numbers(json.loads(found.to_json())) if abs(n - PAID) < 1]


def test_a_person_with_all_rows_that_a_unit_may_have_is_in_no_profile(tmp_path: Path) -> None:
    unit = PrivacyUnit("who", 3)
    snapshot = take(rows(True, times=3), tmp_path, unit=unit)
    for found in profiles(snapshot, ProfilePlan(None, 8.0, 1e-9, unit, population=ROWS), 100):
        assert NAMED not in found.to_json()
        assert not [n for n in numbers(json.loads(found.to_json())) if abs(n - PAID) < 1]


def test_the_snapshot_that_was_profiled_does_hold_the_outlier(tmp_path: Path) -> None:
    # Without noise the same profile does name it, so the tests above can fail.
    snapshot = take(rows(True, times=4), tmp_path, {"who": {"kind": "identifier"}})
    with no_noise():
        found = profile(snapshot, quiet(ROWS, 0.14))
    assert NAMED in found["place"].values
    assert PAID in numbers(json.loads(found.to_json()))


def upper_is_high(found: TableProfile) -> bool:
    return (found["paid"].upper or 0) > 1000


def has_nulls(found: TableProfile) -> bool:
    return found["paid"].null_rate > 0


@pytest.mark.parametrize(("event", "value"), [(upper_is_high, PAID), (has_nulls, None)], ids=["maximum", "only null"])
def test_the_bounds_and_the_null_rate_pass_a_distinguishing_test(tmp_path: Path, event, value: float | None) -> None:
    paid = [float(i % 90) + 0.5 for i in range(ROWS)]
    with_it = take(pa.table({"paid": pa.array([*paid[:-1], value])}), tmp_path / "with")
    without = take(pa.table({"paid": pa.array(paid)}), tmp_path / "without")
    plan = ProfilePlan(None, 6.0, 1e-6, population=ROWS)
    cost = accountant.epsilon(plan.histogram_events(with_it.schema), 1e-5)
    runs = 100
    seen = [sum(map(event, profiles(s, plan, runs))) for s in (with_it, without)]
    # If P[event without] <= p then P[event with] <= e^cost * p + delta. Upper confidence bounds at 1e-8 for both.
    for a, b in (seen, seen[::-1]):
        p = beta.isf(1e-8, b + 1, runs - b)
        assert a <= binom.isf(1e-8, runs, min(1, math.exp(cost) * p + 1e-5))
    assert cost < 1.5
    assert max(seen) < runs / 2, "the true answer is hidden by noise in both tables"


def test_a_maximum_published_as_it_is_would_be_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = measure._Pass.numeric

    def leaky(self, column):
        from dataclasses import replace

        found = honest(self, column)
        exact = max(v for v, _ in self.counts.values(column, 1))
        return replace(found, values=(*found.values, exact), weights=(*found.weights, 0.0))

    monkeypatch.setattr(measure._Pass, "numeric", leaky)
    with pytest.raises(AssertionError):
        test_the_bounds_and_the_null_rate_pass_a_distinguishing_test(tmp_path, upper_is_high, PAID)


def test_a_lone_key_is_shown_by_the_profile_as_rarely_as_its_threshold_promises(tmp_path: Path) -> None:
    delta, lonely = 0.2, 400
    table = pa.table({"c": pa.array(["x"] * 200 + [f"lone-{i}" for i in range(lonely)])})
    plan = ProfilePlan(None, 1.0, delta, population=600)
    found = profile(take(table, tmp_path), plan)["c"]
    shown = sum(str(v).startswith("lone") for v in found.values)
    # Each of 400 people has a key of their own, shown with probability at most 0.2, independently; 1e-7 quantile.
    assert shown <= binom.isf(1e-7, lonely, delta)
    assert np.isclose(sum(found.weights) + found.other + found.null_rate, 1), "noise may see a null where there is none"

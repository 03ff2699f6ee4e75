"""Of a table below others, categories are named by all rows of each person, and not only by the one that a profile reads."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular.profiling import measure, profile_plan
from dp_synth_pipeline.tabular.profiling.counting import HistoryValues
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from tests.unit.tabular.snapshots import take

pytestmark = pytest.mark.slow


def rows_of_persons(folder, rows=600):
    """Write persons who have one of two frequent wards in most rows, and in few one of ten rare ones; return both forms."""
    person = np.repeat(np.arange(rows), 10)
    ward = np.where(person % 2, "north", "south").astype(object)
    at = np.arange(len(person))
    rare = (at % 10 == 3) & (person % 3 > 0)
    ward[rare] = [f"rare {p % 10}" for p in person[rare]]
    ward[person % 50 == 0] = None
    one_each = at[::10] + np.random.default_rng(2).integers(0, 10, rows)
    pq.write_table(pa.table({"who": person, "ward": pa.array(ward)}), folder / "all.parquet")
    return take(pa.table({"ward": pa.array(ward[one_each])}), folder), HistoryValues(folder / "all.parquet", "who", 10)


def test_categories_that_one_row_of_each_person_hides_are_named_by_all_of_their_rows(tmp_path):
    snapshot, histories = rows_of_persons(tmp_path)
    plan = ProfilePlan(None, 3.0, 1e-6, population=600, named=1)
    events = (*plan.count_events(), *plan.histogram_events(snapshot.schema))
    without, found = (
        measure.measure(snapshot.path, snapshot.schema, plan, 600, Odometer(events), given)["ward"]
        for given in (None, histories)
    )
    assert {*without.values} == {"north", "south"}
    assert {*found.values} == {"north", "south", *(f"rare {i}" for i in range(10))}
    shares = dict(zip(found.values, found.weights, strict=True))
    assert math.fsum(shares.values()) + found.other + found.null_rate == pytest.approx(1)
    assert shares["north"] == pytest.approx(0.48 - 0.03, abs=0.06)
    assert all(0.002 < shares[f"rare {i}"] < 0.04 for i in range(10))
    assert list(found.weights) == sorted(found.weights, reverse=True)


def test_names_by_all_rows_are_paid_for_as_one_more_base_histogram_and_its_threshold(tmp_path):
    snapshot, histories = rows_of_persons(tmp_path)
    plan = ProfilePlan(None, 3.0, 1e-6, population=600)
    more = replace(plan, named=1)
    (base, _), (both, _) = (p.histogram_events(snapshot.schema) for p in (plan, more))
    assert (base.count, both.count) == (1, 2)
    assert more.delta(snapshot.schema) == pytest.approx(plan.delta(snapshot.schema) / 2)
    weights = [profile_plan.weight(snapshot.schema, PrivacyUnit(), named=n) for n in (0, 1)]
    assert weights[1] == weights[0] + 1
    with pytest.raises(NotCharged):
        measure.measure(
            snapshot.path, snapshot.schema, more, 600, Odometer(plan.histogram_events(snapshot.schema)), histories
        )


def test_where_nothing_was_named_before_all_rows_name_what_many_persons_have(tmp_path):
    snapshot, histories = rows_of_persons(tmp_path)
    nothing = take(pa.table({"ward": [f"w{i}" for i in range(600)]}), tmp_path)
    plan = ProfilePlan(None, 3.0, 1e-6, population=600, named=1)
    odometer = Odometer(plan.histogram_events(snapshot.schema))
    found = measure.measure(nothing.path, snapshot.schema, plan, 600, odometer, histories)["ward"]
    assert {"north", "south"} <= {*found.values}
    assert math.fsum(found.weights) + found.other + found.null_rate == pytest.approx(1)
    assert min(found.weights) >= 0

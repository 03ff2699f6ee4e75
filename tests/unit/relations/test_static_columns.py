"""Columns that never vary within a parent are told by noisy counts of persons, and carried by the parent's row."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput, NotCharged
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations import relating, static_columns
from dp_synth_pipeline.relations.static_columns import StaticPlan
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular.schema import build
from tests.unit.relations.test_relating import related

VISITS = Related("visits", "visit", "patients", "patient", "seen", max_rows=4)
RELATIONS = Relations(
    [Related("patients", key="patient"), VISITS, Related("drugs", None, "visits", "visit", max_rows=3)]
)


def tables(patients=400, wrong=0, visits=3):
    """Return patients of whom each has a sex and a birthday in every visit; of `wrong` of them one visit errs."""
    person = np.repeat(np.arange(patients), visits)
    sex = np.where(person % 2, "F", "M").astype(object)
    sex[: visits * wrong : visits] = "?"
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(person)) % 300, unit="D")
    born = (pd.Timestamp("1950-01-01") + pd.to_timedelta(person * 7, unit="D")).date
    frame = {"visit": np.arange(len(person)), "patient": person, "seen": days.date, "sex": sex, "born": born}
    drugs = np.repeat(frame["visit"], 2)
    return {
        "patients": pd.DataFrame({"patient": np.arange(patients + 1)}).assign(city="Rome"),
        "visits": pd.DataFrame({**frame, "score": np.arange(len(person)) % 11}),
        "drugs": pd.DataFrame({"visit": drugs, "drug": np.arange(len(drugs)) % 2, "ward": drugs % 3}),
    }


def counts(rows, *columns):
    return static_columns._counts(rows, columns).tolist()


def test_persons_are_counted_once_each_however_many_rows_vary(tmp_path):
    found = related(tmp_path, tables(wrong=30), RELATIONS)
    assert counts(found["visits"], "sex", "born", "score") == [400, 30, 0, 400]
    assert counts(found["drugs"], "drug", "ward") == [400, 400, 0], (
        "within a visit the ward is one, though three vary it"
    )


def test_one_person_more_moves_each_count_by_one_at_most(tmp_path):
    first, more = tables(50), tables(50)
    extra = {"visit": np.arange(900, 960), "patient": 50, "seen": None, "sex": [*"ab"] * 30, "born": None, "score": 7}
    more["visits"] = pd.concat([more["visits"], pd.DataFrame(extra)])
    bounded = Relations([RELATIONS.root, replace(VISITS, max_rows=60), RELATIONS["drugs"]])
    here, there = (related(tmp_path / name, t, bounded) for name, t in (("first", first), ("more", more)))
    moved = np.subtract(*(counts(r["visits"], "sex", "born", "score") for r in (there, here)))
    assert moved.tolist() == [1, 1, 0, 0]


def test_a_null_beside_a_value_is_another_value_and_nulls_alone_are_not(tmp_path):
    some = tables(20)
    some["visits"]["score"] = some["visits"]["score"].where(some["visits"].index % 3 > 0)
    some["visits"]["sex"] = None
    some["visits"]["born"] = some["visits"]["born"].where(some["visits"].index % 6 > 0)
    found = related(tmp_path, some, RELATIONS)["visits"]
    assert counts(found, "sex", "score", "born") == [20, 0, 20, 10]


def test_rows_alone_under_their_parent_tell_nothing(tmp_path):
    assert counts(related(tmp_path, tables(30, visits=1), RELATIONS)["visits"], "sex", "score") == [0, 0, 0]
    assert not static_columns._is_static(0, 0, 5.0)


@pytest.mark.parametrize(("wrong", "expected"), [(0, ("sex", "born")), (8, ("sex", "born")), (40, ("born",))])
def test_noisy_counts_tell_what_varies_in_few_persons_alone(tmp_path, wrong, expected):
    rows = related(tmp_path, tables(wrong=wrong), RELATIONS)
    plan = StaticPlan({"visits": ("sex", "born", "score"), "drugs": ("drug", "ward")}, 1.0)
    found = static_columns.measure(rows, plan, Odometer(plan.events))
    assert found == {"visits": expected, "drugs": ("ward",)}


def test_under_noise_that_hides_the_counts_nothing_is_taken_for_static(tmp_path):
    rows = related(tmp_path, tables(), RELATIONS)
    plan = StaticPlan({"visits": ("sex",)}, 100.0)
    taken = [static_columns.measure(rows, plan, Odometer(plan.events))["visits"] for _ in range(40)]
    assert taken.count(("sex",)) <= 12, "20 persons of 400 are a fifth of a deviation: 1 in 28 is expected"


def test_counts_that_nobody_paid_for_are_refused(tmp_path):
    rows = related(tmp_path, tables(10), RELATIONS)
    plan = StaticPlan({"visits": ("sex", "born")}, 2.0)
    with pytest.raises(NotCharged):
        static_columns.measure(rows, plan, Odometer(StaticPlan({"visits": ("sex",)}, 2.0).events))


def test_a_parent_carries_its_first_row_s_values_and_the_rows_below_lose_them(tmp_path):
    rows = related(tmp_path, tables(wrong=1), RELATIONS)
    table = replace(VISITS, static=("sex", "born"))
    above, below = static_columns.carry(rows["patients"], rows["visits"], table)
    patients, visits = (pq.read_table(r.path).to_pandas() for r in (above, below))
    assert [c.name for c in above.schema][-2:] == ["visits.sex", "visits.born"]
    assert not {"sex", "born"} & {*visits.columns, *(c.name for c in below.schema)}
    assert visits[relating.ROW].tolist() == list(range(1200))
    assert patients[relating.ROW].tolist() == list(range(401))
    assert patients["visits.sex"].isna().sum() == 1, "who has no visits has no sex there"
    assert set(patients["visits.sex"].dropna()) == {"F", "M", "?"}
    whole = pq.read_table(rows["visits"].path).to_pandas()
    firsts = whole[whole[relating.PLACE] == 0].set_index(relating.PARENT)
    carried = patients.set_index(relating.ROW).loc[firsts.index]
    assert carried["visits.sex"].tolist() == firsts["sex"].tolist()
    assert carried["visits.born"].tolist() == firsts["born"].tolist()
    assert above.path.stat().st_mode & 0o777 == below.path.stat().st_mode & 0o777 == 0o400


TEXT, WHOLE, DAY = pa.string(), pa.int64(), pa.date32()
STORAGE = {"visit": WHOLE, "patient": WHOLE, "seen": DAY, "sex": TEXT, "left": DAY}
FACTS = {"visit": {"kind": "identifier"}, "patient": {"kind": "identifier"}, "left": {"after": "seen"}}


def source(storage=STORAGE, **facts):
    return build(storage, {**FACTS, **facts})


PARENT = build({"patient": WHOLE, "visits.city": TEXT}, {"patient": {"kind": "identifier"}})


@pytest.mark.parametrize(
    ("column", "source", "message"),
    [
        ("nowhere", source(), "there is no column 'nowhere'"),
        ("patient", source(), "it is a key"),
        ("seen", source(), "rows are ordered by it"),
        ("left", source(), "hangs on another column"),
        ("sex", source(sex={"nulls": "mode"}), "nulls: mode fills each row"),
        ("sex", source(sex={"kind": "excluded"}), "left out"),
        ("city", source({**STORAGE, "city": TEXT}), "has a column 'visits.city' already"),
        ("City", source({**STORAGE, "City": TEXT}), "has a column 'visits.City' already"),
    ],
)
def test_a_column_that_no_parent_can_carry_is_refused_by_name_and_never_looked_at(column, source, message):
    with pytest.raises(InvalidInput, match=rf"tables\.visits\.columns\.{column}: static: .*{message}"):
        static_columns.check(replace(VISITS, static=(column,)), source, PARENT)
    assert column not in static_columns.candidates(VISITS, source, PARENT, {})


def test_a_root_has_no_static_columns_and_a_table_of_nothing_else_is_refused():
    with pytest.raises(InvalidInput, match="rows of the root have no parent"):
        static_columns.check(Related("patients", key="patient", static=("city",)), PARENT, None)
    drugs = Related("drugs", parent="visits", reference="visit", max_rows=2, static=("drug",))
    columns = build({"visit": WHOLE, "drug": TEXT}, {"visit": {"kind": "identifier"}})
    with pytest.raises(InvalidInput, match=r"tables\.drugs: all columns are declared static"):
        static_columns.check(drugs, columns, source())


def test_what_somebody_declared_and_tables_of_one_row_each_are_not_looked_at():
    assert static_columns.candidates(VISITS, source(), PARENT, {}) == ("sex",)
    assert static_columns.candidates(VISITS, source(), PARENT, {"sex": False}) == ()
    assert static_columns.candidates(replace(VISITS, max_rows=1), source(), PARENT, {}) == ()

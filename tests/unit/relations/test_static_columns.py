"""Columns that never vary within a parent are told by noisy counts of persons, and carried by the parent's row."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput, NotCharged
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations import carrying, relating, static_columns
from dp_synth_pipeline.relations.static_columns import Candidates, Found, StaticPlan
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
    return static_columns._counts(rows, Candidates(columns)).tolist()


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
    assert not static_columns._few(0, 0, 5.0)


@pytest.mark.parametrize(("wrong", "expected"), [(0, ("sex", "born")), (8, ("sex", "born")), (40, ("born",))])
def test_noisy_counts_tell_what_varies_in_few_persons_alone(tmp_path, wrong, expected):
    rows = related(tmp_path, tables(wrong=wrong), RELATIONS)
    plan = StaticPlan({"visits": Candidates(("sex", "born", "score")), "drugs": Candidates(("drug", "ward"))}, 1.0)
    found = static_columns.measure(rows, plan, Odometer(plan.events))
    assert found == {"visits": Found(expected), "drugs": Found(("ward",))}


def test_under_noise_that_hides_the_counts_nothing_is_taken_for_static(tmp_path):
    rows = related(tmp_path, tables(), RELATIONS)
    plan = StaticPlan({"visits": Candidates(("sex",))}, 100.0)
    taken = [static_columns.measure(rows, plan, Odometer(plan.events))["visits"].static for _ in range(40)]
    assert taken.count(("sex",)) <= 12, "20 persons of 400 are a fifth of a deviation: 1 in 28 is expected"


def test_it_is_told_whether_noise_hides_even_what_holds_for_all(tmp_path):
    rows = related(tmp_path, tables(), RELATIONS)
    for scale, hidden in ((1.0, False), (100.0, True)):
        plan = StaticPlan({"visits": Candidates(("sex",))}, scale)
        found = [static_columns.measure(rows, plan, Odometer(plan.events))["visits"].hidden for _ in range(20)]
        assert (sum(found) > 15) == hidden, "a twentieth of 400 persons is 20"


def test_counts_that_nobody_paid_for_are_refused(tmp_path):
    rows = related(tmp_path, tables(10), RELATIONS)
    plan = StaticPlan({"visits": Candidates(("sex", "born"))}, 2.0)
    with pytest.raises(NotCharged):
        static_columns.measure(rows, plan, Odometer(StaticPlan({"visits": Candidates(("sex",))}, 2.0).events))


def test_a_parent_carries_its_first_row_s_values_and_the_rows_below_lose_them(tmp_path):
    rows = related(tmp_path, tables(wrong=1), RELATIONS)
    table = replace(VISITS, static=("sex", "born"))
    above, below = carrying.carry(rows["patients"], rows["visits"], table)
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
    assert column not in static_columns.candidates(VISITS, source, PARENT, {}).columns


def test_a_root_has_no_static_columns_and_a_table_of_nothing_else_is_refused():
    with pytest.raises(InvalidInput, match="rows of the root have no parent"):
        static_columns.check(Related("patients", key="patient", static=("city",)), PARENT, None)
    drugs = Related("drugs", parent="visits", reference="visit", max_rows=2, static=("drug",))
    columns = build({"visit": WHOLE, "drug": TEXT}, {"visit": {"kind": "identifier"}})
    with pytest.raises(InvalidInput, match=r"tables\.drugs: all columns are declared static"):
        static_columns.check(drugs, columns, source())


def test_what_somebody_declared_and_tables_of_one_row_each_are_not_looked_at():
    assert static_columns.candidates(VISITS, source(), PARENT, {}).columns == ("sex",)
    assert static_columns.candidates(VISITS, source(), PARENT, {"sex": False}).columns == ()
    assert static_columns.candidates(replace(VISITS, max_rows=1), source(), PARENT, {}).columns == ()


def test_numbers_of_ordered_rows_and_cells_of_a_csv_that_may_be_numbers_are_looked_at_for_falls():
    columns = source({**STORAGE, "age": WHOLE})
    assert static_columns.candidates(VISITS, columns, PARENT, {})[:2] == (("sex", "age"), ("age",))
    assert static_columns.candidates(VISITS, columns, PARENT, {}, {"sex"})[:2] == (("sex", "age"), ("sex", "age"))
    assert static_columns.candidates(replace(VISITS, order=None), columns, PARENT, {}).numbers == ()


def ageing(patients=400, wrong=0, as_text=False):
    """Return patients whose age and total grow from visit to visit, and whose score does not; of `wrong`, the age falls."""
    some = tables(patients)
    visits = some["visits"].assign(
        age=lambda v: v["patient"] % 70 + v["visit"] % 3, total=lambda v: v["visit"] % 3 / 10
    )
    visits.loc[2 : 3 * wrong : 3, "age"] = 0
    some["visits"] = visits.astype({"age": str, "score": str}) if as_text else visits
    return some


ALL = Candidates(("sex", "age", "total", "score"), ("age", "total", "score"))


@pytest.mark.parametrize("as_text", [False, True])
def test_persons_in_whose_rows_a_number_falls_are_counted(tmp_path, as_text):
    rows = related(tmp_path, ageing(wrong=30, as_text=as_text), RELATIONS)["visits"]
    several, *varying, age, total, score = static_columns._counts(rows, ALL).tolist()
    assert (several, varying) == (400, [0, 400, 400, 400])
    assert (age, total) == (30, 0)
    assert score == 73, "of 11 scores in turn, two follow downwards"


def test_a_null_beside_a_value_and_cells_that_are_no_numbers_count_as_falls(tmp_path):
    some = ageing(as_text=True)
    some["visits"]["sex"] = [*"abc"] * 400
    some["visits"].loc[::3, "age"] = None
    rows = related(tmp_path, some, RELATIONS)["visits"]
    *_, sex, age = static_columns._counts(rows, Candidates(("sex", "age"), ("sex", "age"))).tolist()
    assert (sex, age) == (400, 400)


def test_one_person_more_moves_falls_by_one_at_most(tmp_path):
    first, more = ageing(50), ageing(50)
    extra = {"visit": np.arange(900, 960), "patient": 50, "age": [3, 2] * 30, "total": 1.0, "score": 5, "sex": "F"}
    more["visits"] = pd.concat([more["visits"], pd.DataFrame(extra)])
    bounded = Relations([RELATIONS.root, replace(VISITS, max_rows=60), RELATIONS["drugs"]])
    here, there = (related(tmp_path / name, t, bounded)["visits"] for name, t in (("first", first), ("more", more)))
    moved = static_columns._counts(there, ALL) - static_columns._counts(here, ALL)
    assert moved.tolist() == [1, 0, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize(("wrong", "expected"), [(0, ("age", "total")), (9, ("age", "total")), (50, ("total",))])
def test_noisy_counts_tell_which_numbers_fall_in_few_of_those_who_vary(tmp_path, wrong, expected):
    rows = related(tmp_path, ageing(wrong=wrong), RELATIONS)
    plan = StaticPlan({"visits": ALL}, 1.0)
    assert static_columns.measure(rows, plan, Odometer(plan.events)) == {"visits": Found(("sex",), expected)}


def test_a_number_that_hardly_ever_varies_is_static_and_one_that_falls_as_often_as_it_rises_is_neither(tmp_path):
    some = ageing()
    some["visits"]["score"] = 0
    some["visits"].loc[1 : 3 * 15 : 3, "score"] = 1  # of 15 in 400 it rises and falls, and of as many it rises
    some["visits"].loc[3 * 15 + 2 : 3 * 30 : 3, "score"] = 1
    some["visits"].loc[2 : 3 * 5 : 3, "total"] = 0.2
    some["visits"]["total"] = np.where(some["visits"]["patient"] < 5, some["visits"]["total"], 0.0)
    rows = related(tmp_path, some, RELATIONS)
    plan = StaticPlan({"visits": ALL}, 0.5)
    found = static_columns.measure(rows, plan, Odometer(plan.events))
    assert found == {"visits": Found(("sex", "total"), ("age",))}


def test_falls_that_nobody_paid_for_are_refused(tmp_path):
    rows = related(tmp_path, ageing(10), RELATIONS)
    plan, paid = StaticPlan({"visits": ALL}, 2.0), StaticPlan({"visits": ALL._replace(numbers=())}, 2.0)
    with pytest.raises(NotCharged):
        static_columns.measure(rows, plan, Odometer(paid.events))


def test_a_monotone_column_must_be_a_number_of_rows_that_have_an_order():
    columns = source({**STORAGE, "age": WHOLE})
    static_columns.check(replace(VISITS, increasing=("age",)), columns, PARENT)
    static_columns.check(replace(VISITS, decreasing=("sex",)), columns, PARENT, {"sex"})
    for table, said in (
        (replace(VISITS, increasing=("sex",)), r"sex: monotone: it is of kind category, and numbers alone are"),
        (replace(VISITS, increasing=("age",), order=None), "age: monotone: rows of visits have no order"),
        (replace(VISITS, decreasing=("years",)), "years: monotone: there is no column 'years'"),
    ):
        with pytest.raises(InvalidInput, match=said):
            static_columns.check(table, columns, PARENT)
    taken = source({**STORAGE, "age": WHOLE, "Age: to the next": WHOLE})
    assert static_columns.candidates(VISITS, taken, PARENT, {}).numbers == ("Age: to the next",)
    with pytest.raises(InvalidInput, match="visits has a column 'age: to the next' already"):
        static_columns.check(replace(VISITS, increasing=("age",)), taken, PARENT)

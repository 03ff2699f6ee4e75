"""Tables hang together as a tree; whatever is none is refused by the name of the table, with what to change."""

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations.structure import Beginning, Related, Relations

PATIENTS = Related("patients", key="patient_id")
VISITS = Related("visits", "visit_id", "patients", "patient_id", "visited", max_rows=30)
DRUGS = Related("drugs", None, "visits", "visit_id", max_rows=5)


def test_parents_come_before_their_children_however_they_are_named():
    relations = Relations([DRUGS, VISITS, PATIENTS])
    assert [table.name for table in relations] == ["patients", "visits", "drugs"]
    assert relations.root is PATIENTS
    assert [t.name for t in relations.ancestors("drugs")] == ["visits", "patients"]


def test_a_persons_rows_are_bounded_by_the_product_of_the_bounds_above():
    relations = Relations([PATIENTS, VISITS, DRUGS])
    assert [relations.most_rows(t.name) for t in relations] == [1, 30, 150]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ([PATIENTS, Related("staff", key="id")], "one table has no parent"),
        ([Related("a", "i", "b", "r"), Related("b", "i", "a", "r")], "one table has no parent"),
        ([PATIENTS, Related("a", "i", "b", "r"), Related("b", "i", "a", "r")], "lead in a circle"),
        ([PATIENTS, Related("staff", "id", "staff", "boss")], "refer to rows of the same table"),
        ([PATIENTS, Related("visits", None, "persons", "id")], "there is no table 'persons'"),
        ([Related("patients"), VISITS], "key: visits refers to its rows"),
        ([Related("patients")], "key: the privacy unit refers to its rows"),
        ([PATIENTS, VISITS, VISITS], "named twice"),
        ([Related("patients", "id", order="born")], "needs no order"),
        ([PATIENTS, Related("visits", None, "patients", "id", keep_first=True)], "needs an order"),
        ([PATIENTS, Related("visits", "v", "patients", "id", order="v")], "is a key"),
        ([PATIENTS, Related("visits", None, "patients", "id", max_rows=0)], "at least 1 row"),
        ([PATIENTS, Related("visits", None, "patients", "id", max_rows=10_001)], "more than 10,000"),
    ],
)
def test_what_is_no_tree_is_refused_by_name(tables, words):
    with pytest.raises(InvalidInput, match=words):
        Relations(tables)


def test_the_columns_that_were_released_say_how_rows_begin_as_those_of_earlier_versions_did():
    calls, bills = (Related(name, None, "patients", "patient_id", "day") for name in ("calls", "bills"))
    labs = Related("labs", None, "visits", "visit_id", "taken")
    relations = Relations([PATIENTS, VISITS, labs, calls, bills])
    now = {"visits, else bills: first visited", "bills: to the first day from visits", "calls: first day"}
    found = {name: relations.beginning(name, now) for name in ("visits", "calls", "bills")}
    assert found == {
        "visits": Beginning("visits, else bills: first visited"),
        "calls": Beginning("calls: first day"),
        "bills": Beginning("visits, else bills: first visited", "bills: to the first day from visits"),
    }
    earlier = {"visits: first visited", "calls: first day", "bills: first day"}
    assert {relations.beginning(name, earlier).time for name in ("visits", "calls", "bills")} == earlier
    assert relations.beginning("labs", {"labs: to the first taken"}) == Beginning(None, "labs: to the first taken")
    assert relations.beginning("labs", {"labs: first taken"}) == Beginning("labs: first taken")

"""Tables hang together as a tree; whatever is none is refused by the name of the table, with what to change."""

import json
from dataclasses import asdict, replace

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations.structure import Beginning, PublicTable, Related, Relations

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
        "visits": Beginning("visits, else bills: first visited", None, VISITS),
        "calls": Beginning("calls: first day", None, calls),
        "bills": Beginning("visits, else bills: first visited", "bills: to the first day from visits", VISITS),
    }
    earlier = {"visits: first visited", "calls: first day", "bills: first day"}
    assert {relations.beginning(name, earlier).time for name in ("visits", "calls", "bills")} == earlier
    assert relations.beginning("labs", {"labs: to the first taken"}) == Beginning(None, "labs: to the first taken")
    assert relations.beginning("labs", {"labs: first taken"}) == Beginning("labs: first taken", None, labs)
    after = {"visits, else bills: first visited: after came", "bills: to the first day from visits", "came"}
    begun = [relations.beginning(name, after) for name in ("visits", "bills")]
    assert {(b.time, b.leader, b.base) for b in begun} == {("visits, else bills: first visited", VISITS, "came")}
    assert [b.distance for b in begun] == [None, "bills: to the first day from visits"]


WARDS, DRUG_LIST = PublicTable("wards", "ward"), PublicTable("drug_list", "code")
STAYS = Related("stays", "stay", "patients", "patient_id", "began", 3, refers=(("ward", "wards"), ("next", "wards")))


def test_public_tables_come_before_those_whose_rows_refer_to_them_and_are_no_part_of_the_tree():
    relations = Relations([STAYS, PATIENTS], [WARDS, DRUG_LIST])
    assert [table.name for table in relations.everything] == ["wards", "drug_list", "patients", "stays"]
    assert [table.name for table in relations] == ["patients", "stays"]
    assert (relations.root, relations.children("patients")) == (PATIENTS, [STAYS])
    assert [relations.public_key(name) for name in ("wards", "drug_list", "stays")] == ["ward", "code", None]
    assert Relations([PATIENTS]).everything == (PATIENTS,)


@pytest.mark.parametrize(
    ("refers", "public", "words"),
    [
        ({"ward": "wards"}, [], "refers: ward: 'wards' is no table that is declared public; none is: write public:"),
        ({"ward": "patients"}, [WARDS], "'patients' is no table that is declared public; those that are: wards"),
        ({"stay": "wards"}, [WARDS], "refers: stay: the column is a key of this table, or its order"),
        ({"patient_id": "wards"}, [WARDS], "refers: patient_id: the column is a key of this table, or its order"),
        ({"began": "wards"}, [WARDS], "refers: began: the column is a key of this table, or its order"),
        ({"left": "wards"}, [WARDS], "refers: left: "),
    ],
)
def test_a_reference_to_what_is_not_public_or_by_a_column_that_is_made_anew_is_refused(refers, public, words):
    stays = replace(STAYS, refers=tuple(refers.items()), decreasing=("left",))
    with pytest.raises(InvalidInput, match=rf"tables\.stays: {words}" if words.startswith("refers") else words):
        Relations([PATIENTS, stays], public)


def test_what_a_table_refers_to_comes_back_from_json_and_an_earlier_version_s_refers_to_nothing():
    written = json.loads(json.dumps(asdict(STAYS)))
    assert Related.of(written) == STAYS
    del written["refers"]
    assert Related.of(written) == replace(STAYS, refers=())

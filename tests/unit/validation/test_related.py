"""Checks of relations fail for what they are about: an orphan, a row too many, a key twice, rows out of order."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.structure import PublicTable, Related, Relations
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.kinds.base import lookup
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import related
from dp_synth_pipeline.validation.run import validate

VISITS = Related("visits", key="visit", parent="people", reference="person", order="day", max_rows=2, static=("sex",))
DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None, dt.date(2023, 5, 5)]


def failed(table=VISITS, parents=("a", "b", "c"), **columns):
    own = {"visit": [1, 2, 3, 4], "person": ["a", "a", "b", "c"], "day": DAYS, "sex": ["F", "F", None, "M"]}
    rows = pa.table(own | columns)
    keys = pa.chunked_array([list(parents)])
    results = validate(related.facts_of(table, rows, keys), related.related_checks(table))
    return {r.name for r in results if not r.passed}


def test_rows_that_keep_every_relation_pass_and_a_null_has_no_place_in_the_order():
    assert failed() == set()


@pytest.mark.parametrize(
    ("columns", "check"),
    [
        ({"visit": [1, 2, 3, 3]}, related.KEY),
        ({"person": ["a", "a", "b", "z"]}, related.PARENT),
        ({"person": ["a", "a", "b", None]}, related.PARENT),
        ({"person": ["a", "a", "a", "c"], "sex": ["F", "F", "F", "M"]}, related.ROWS),
        ({"day": [DAYS[1], DAYS[0], None, DAYS[3]]}, related.ORDER),
        ({"sex": ["F", "M", "F", "M"]}, related.STATIC),
        ({"sex": ["F", None, "F", "M"]}, related.STATIC),
    ],
)
def test_what_breaks_a_relation_fails_its_check(columns, check):
    assert failed(**columns) == {check}


def test_rows_that_are_the_same_in_unique_columns_are_told_but_not_those_of_two_parents_or_of_nulls():
    table = replace(VISITS, unique=("ward", "day"))
    assert failed(table, ward=["x", "x", "x", "x"]) == set()
    assert failed(table, ward=["x", "x", "y", "x"], day=[DAYS[0], DAYS[0], None, DAYS[3]]) == {related.UNIQUE}
    assert failed(table, ward=["x", None, "y", "x"], day=[DAYS[0], DAYS[0], None, DAYS[3]]) == set()
    assert {"ward", "day"} <= {*related.columns_of(table)}
    assert related.UNIQUE in [check.name for check in related.related_names(table)]
    assert related.UNIQUE not in [check.name for check in related.related_names(VISITS)]


def test_monotone_columns_may_turn_back_between_persons_alone_and_the_row_that_does_is_told():
    table = replace(VISITS, increasing=("age",), decreasing=("left",))
    assert failed(table, age=[4, 5, 3, 2], left=[5, 5, 7, 9]) == set()
    assert failed(table, age=[5, 4, 3, 2], left=[5, 5, 7, 9]) == {related.MONOTONE}
    assert failed(table, age=[4, 5, 3, 2], left=[5, 6, 7, 9]) == {related.MONOTONE}
    assert failed(table, age=[None, 5, 3, 2], left=[5, None, 7, 9]) == set()
    rows = pa.table({"person": ["a", "a", "b", "b"], "age": [1, 1, 1, 0], "left": [3, 4, 2, 2]})
    assert related._keep_direction(table, rows["person"], rows).to_pylist() == [True, False, True, False]
    assert {table.order, "age", "left"} <= {*related.columns_of(table)}


@pytest.mark.parametrize(("way", "days"), [("next", 0), ("day_before", 1)])
def test_a_row_that_does_not_end_when_the_next_of_its_person_begins_is_told(way, days):
    table, day = replace(VISITS, until=(("left", way),)), dt.timedelta(days=1)
    begun = [DAYS[0], DAYS[1], DAYS[0], DAYS[3]]
    ends = [DAYS[1] - days * day, None, None, DAYS[3]]
    assert failed(table, day=begun, left=ends) == set()
    assert failed(table, day=begun, left=[DAYS[1] + day, *ends[1:]]) == {related.ORDER}
    assert failed(table, day=begun, left=[None, *ends[1:]]) == {related.ORDER}
    assert "left" in related.columns_of(table)
    assert "left is" in next(c.description for c in related.related_checks(table) if c.name == related.ORDER)


def test_what_is_made_anew_for_each_parent_follows_from_the_parent_s_number_and_not_from_its_row_s():
    table = replace(VISITS, order=None, static=("email", "sex"))
    text = dict.fromkeys(("person", "email", "sex"), pa.string())
    kinds = {"visit": "identifier", "person": "identifier", "email": "email"}
    schema = build({"visit": pa.int64(), **text}, {name: {"kind": kind} for name, kind in kinds.items()})
    made = related.made_for_parents(table, schema)
    assert [c.name for c in made] == ["email"]
    profile = TableProfile(10, 10, "row", (ColumnProfile("sex", "category", values=("F", "M"), weights=(0.5, 0.5)),))
    checks = {c.name: c for c in related.suite(table, schema, profile, 20)}
    assert [c["name"] for c in checks["identifiers_regenerated"].kwargs["columns"]] == ["visit"]
    assert "email__domain" not in checks
    assert checks["email__type"].column == "email"
    people, keys = ["b", "b", "c"], pa.chunked_array([["a", "b", "c"]])
    first, second, third = schema["email"].kind.generated(schema["email"], 0, 3).to_pylist()
    for emails, expected in {
        (second, second, third): True,
        (first, first, second): False,
        (third, third, None): False,
    }.items():
        rows = pa.table({"visit": [1, 2, 3], "person": people, "email": emails, "sex": ["F", "F", "M"]})
        facts = related.facts_of(table, rows, keys, made)
        assert all(facts[related.STATIC].to_pylist()) is expected


def test_the_root_has_the_check_of_its_key_alone():
    root = Related("people", key="visit")
    assert [c.name for c in related.related_checks(root)] == [related.KEY]
    assert failed(root) == set()


def test_a_table_without_rows_keeps_every_relation():
    empty = {"visit": pa.array([], pa.int64()), "day": pa.array([], pa.date32())}
    empty |= dict.fromkeys(("person", "sex"), pa.array([], pa.string()))
    facts = related.facts_of(VISITS, pa.table(empty), pa.chunked_array([["a"]]))
    assert all(r.passed for r in validate(facts, related.related_checks(VISITS)))


TREE = Relations(
    [
        Related("people", key="person"),
        replace(VISITS, max_rows=9),
        Related("drugs", None, "visits", "visit", max_rows=2),
    ]
)
SYNTHETIC = {
    "people": pa.table({"person": ["a", "b", "c"], "born": [dt.date(2000, 1, 1), None, dt.date(2024, 1, 1)]}),
    "visits": pa.table(
        {"visit": [1, 2, 3, 4], "person": ["c", "a", "b", "a"], "day": [DAYS[1], DAYS[0], DAYS[1], DAYS[3]]}
    ),
    "drugs": pa.table({"visit": [4, 1, 9], "given": [dt.date(2024, 1, 1), dt.date(2023, 1, 1), dt.date(1999, 1, 1)]}),
}


def judged(name: str, text: str) -> np.ndarray:
    read = lambda table, columns: SYNTHETIC[table].select(columns)  # noqa: E731
    rule = constraints.parse(text)
    return constraints.holds(rule, pa.table(related.rule_rows(TREE[name], TREE, [rule], read)))


def test_a_rule_across_tables_judges_each_row_beside_the_row_that_it_hangs_on():
    assert judged("visits", "visits.day >= people.born").tolist() == [True, True, True, True]
    assert judged("visits", "visits.day < people.born").tolist() == [False, False, True, False]  # b has no birthday
    assert judged("drugs", "drugs.given >= people.born").tolist() == [True, False, True]  # the last has no visit
    assert judged("drugs", "drugs.given > visits.day").tolist() == [True, False, True]


def test_what_is_not_asked_for_is_not_read():
    assert related.rule_rows(VISITS, TREE, [], lambda table, columns: 1 / 0) == {}


def test_of_what_hangs_on_the_order_the_type_is_expected_and_of_what_hangs_on_others_the_ends():
    types = {"visit": pa.int64(), "person": pa.string(), "day": pa.date32(), "left": pa.date32()}
    types |= {"booked": pa.date32(), "paid": pa.date32()}
    declared = {name: {"kind": "identifier"} for name in ("visit", "person")}
    schema = build(types, {**declared, "left": {"after": "day"}, "paid": {"after": "booked"}})
    own = [("left: after day", 3), ("booked", 9_000), ("paid: after booked", 5)]
    columns = tuple(ColumnProfile(n, lookup("integer"), (), (), ((0.0, float(end)),), (1.0,)) for n, end in own)
    checks = {c.name: c for c in related.suite(VISITS, schema, TableProfile(10, 10, "row", columns), 20)}
    assert {c for c in checks if c.startswith(("left", "day"))} == {"left__type", "day__type"}
    assert checks["paid__domain"].kwargs["max_value"] == "1994-08-28"  # day 9,005


REFERRING = replace(VISITS, refers=(("ward", "wards"), ("next", "wards"), ("code", "codes")))
PUBLIC_KEYS = {"wards": pa.chunked_array([["n", "s"], ["w"]]), "codes": pa.chunked_array([[7, 8]])}


def referring(**columns):
    own = {"visit": [1, 2, 3, 4], "person": ["a", "a", "b", "c"], "day": DAYS, "sex": ["F", "F", None, "M"]}
    rows = pa.table(own | {"ward": list("nsws"), "next": list("sssw"), "code": [7, 7, 8, 8]} | columns)
    return related.facts_of(REFERRING, rows, pa.chunked_array([list("abc")]), (), PUBLIC_KEYS)


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        ({}, [True, True, True, True]),
        ({"ward": ["n", "x", "w", "s"]}, [True, False, True, True]),
        ({"next": ["n", "s", "w", ""]}, [True, True, True, False]),
        ({"code": [7, 8, 9, 7]}, [True, True, False, True]),
        ({"code": ["7", "8", "8", "7"]}, [True, True, True, True]),
        ({"ward": [None, "n", "s", "x"], "code": [None, None, 7, 7]}, [True, True, True, False]),
        ({"ward": pa.nulls(4, pa.string())}, [True, True, True, True]),
    ],
)
def test_a_row_that_refers_to_no_public_row_is_told_and_one_that_refers_to_none_is_not(columns, kept):
    facts = referring(**columns)
    assert facts[related.REFERS].to_pylist() == kept
    broken = {r.name for r in validate(facts, related.related_checks(REFERRING)) if not r.passed}
    assert broken == (set() if all(kept) else {related.REFERS})


def test_references_are_checked_of_tables_that_have_any_and_the_check_says_which():
    (check,) = (c for c in related.related_checks(REFERRING) if c.name == related.REFERS)
    assert check.blocking
    assert "ward a row of wards, next a row of wards, code a row of codes" in check.description
    assert related.REFERS in [c.name for c in related.related_names(REFERRING)]
    assert related.REFERS not in [c.name for c in related.related_names(VISITS)]
    assert {"ward", "next", "code"} <= {*related.columns_of(REFERRING)}


def test_a_table_without_rows_refers_to_nothing():
    empty = {"visit": pa.array([], pa.int64()), "day": pa.array([], pa.date32()), "code": pa.array([], pa.int64())}
    facts = referring(**empty | dict.fromkeys(("person", "sex", "ward", "next"), pa.array([], pa.string())))
    assert all(r.passed for r in validate(facts, related.related_checks(REFERRING)))


SHOP = Relations(
    [
        Related("people", "person", refers=(("country", "countries"),)),
        Related("orders", None, "people", "person", max_rows=4, refers=(("product", "products"),)),
    ],
    [PublicTable("products", "sku"), PublicTable("countries", "code")],
)
SOLD = {
    "people": pa.table({"person": ["a", "b", "c"], "country": ["de", None, "at"]}),
    "orders": pa.table({"person": ["c", "a", "b", "a"], "product": [2, 1, None, 2], "price": [5, 3, 9, 4]}),
    "products": pa.table({"sku": [1, 2], "price": [3, 5]}),
    "countries": pa.table({"code": ["at", "de"], "least": [4, 5]}),
}


def test_a_rule_that_looks_up_a_public_table_judges_each_row_beside_the_one_it_or_the_row_above_refers_to():
    def sold(text):
        rule = constraints.parse(text)
        read = lambda table, columns: SOLD[table].select(columns)  # noqa: E731
        return constraints.holds(rule, pa.table(related.rule_rows(SHOP["orders"], SHOP, [rule], read))).tolist()

    assert sold("orders.price == products.price") == [True, True, True, False]  # the third refers to none
    assert sold("orders.price >= countries.least") == [True, False, True, False]  # of b, no country is known

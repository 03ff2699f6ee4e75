"""Rules across tables are read as those of one table are, and judged on the table that hangs on all others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import ruling
from dp_synth_pipeline.relations.structure import PublicTable, Related, Relations
from dp_synth_pipeline.tabular.constraints import parse
from dp_synth_pipeline.tabular.schema import build

RELATIONS = Relations(
    [
        Related("patients", key="pid"),
        Related("visits", "vid", "patients", "pid", "visited", max_rows=3),
        Related("drugs", None, "visits", "vid", max_rows=2),
        Related("bills", None, "patients", "pid", max_rows=2),
    ]
)
KEYS = {"pid": {"kind": "identifier"}, "vid": {"kind": "identifier"}}
SOURCES = {
    "patients": build({"pid": pa.int64(), "born": pa.date32(), "sex": pa.string()}, {"pid": KEYS["pid"]}),
    "visits": build({"vid": pa.int64(), "pid": pa.int64(), "visited": pa.date32(), "first day": pa.date32()}, KEYS),
    "drugs": build({"vid": pa.int64(), "dose": pa.float64(), "most": pa.float64()}, {"vid": KEYS["vid"]}),
    "bills": build({"pid": pa.int64(), "paid": pa.date32()}, {"pid": KEYS["pid"]}),
}


@pytest.mark.parametrize(
    ("rule", "table"),
    [
        ("visits.visited >= patients.born", "visits"),
        ("patients.born <= visits.visited", "visits"),
        ('"visits.first day" <= visits.visited', "visits"),
        ("patients.sex -> drugs.dose", "drugs"),
        ("drugs.most = drugs.dose + drugs.dose", "drugs"),
        ("patients.born < 2030-01-01", "patients"),
    ],
)
def test_a_rule_judges_the_rows_of_the_table_that_hangs_on_all_others(rule: str, table: str) -> None:
    assert ruling.judged(parse(rule), RELATIONS).name == table
    ruling.check([parse(rule)], SOURCES)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("visited >= patients.born", "'visited' names no table"),
        ("visit.visited >= patients.born", "there is no table 'visit'"),
        ("visits.visited >= bills.paid", "none hangs on all others"),
        ("drugs.dose >= bills.paid", "none hangs on all others"),
    ],
)
def test_a_rule_that_no_row_can_be_judged_by_is_refused(rule: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        ruling.judged(parse(rule), RELATIONS)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("visits.seen >= patients.born", "there is no column 'seen' to publish in visits"),
        ("visits.pid >= patients.born", "pid is identifier"),
        ("visits.visited >= patients.sex", "patients.sex is category"),
        ("drugs.dose >= patients.born", "a number on both sides"),
    ],
)
def test_a_rule_that_columns_cannot_keep_is_refused(rule: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        ruling.check([parse(rule)], SOURCES)


def test_a_rule_about_a_column_whose_type_is_not_known_yet_asks_for_its_kind() -> None:
    rule = parse("visits.visited >= patients.born")
    with pytest.raises(InvalidInput, match="Declare what it holds"):
        ruling.check([rule], SOURCES, {"patients": ["born"]})
    ruling.check([rule], SOURCES, {"patients": ["sex"]})


def test_what_rules_compute_of_a_table_is_named_as_the_table_names_it():
    rules = [
        parse(text)
        for text in (
            "orders.total = orders.price * customers.rate",
            "orders.paid == orders.ordered",
            "orders.price >= 0",
            "customers.rate = 2 * customers.age",
        )
    ]
    assert ruling.computed(rules, "orders") == {"total": ("price",), "paid": ("ordered",)}
    assert ruling.computed(rules, "customers") == {"rate": ("age",)}


SHOP = Relations(
    [
        Related("customers", key="cid", refers=(("country", "countries"),)),
        Related("orders", "oid", "customers", "cid", "day", max_rows=5, refers=(("from", "places"), ("to", "places"))),
        Related("items", None, "orders", "oid", max_rows=3, refers=(("product", "products"),)),
    ],
    [PublicTable("products", "sku"), PublicTable("countries", "code"), PublicTable("places", "place")],
)


@pytest.mark.parametrize(
    ("rule", "table"),
    [
        ("items.price == products.price", "items"),
        ("products.price >= items.paid", "items"),
        ("items.tax <= countries.tax", "items"),
        ("orders.fee >= countries.fee", "orders"),
        ("customers.age >= countries.grown", "customers"),
        ("items.total = products.price * customers.rate", "items"),
    ],
)
def test_a_rule_about_a_public_table_judges_the_rows_that_refer_to_it_or_hang_on_those_that_do(rule, table):
    assert ruling.judged(parse(rule), SHOP).name == table


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("orders.fee <= products.price", "no column of orders, or of a table above, refers to products, so no one row"),
        ("orders.fee <= places.fee", "orders.from and orders.to refer to it, so no one row of places goes with a row"),
        ("items.price <= places.fee", "orders.from and orders.to refer to it"),
        ("products.price > 0", "it names public tables alone, which are copied as they are"),
        ("products.price > countries.tax", "it names public tables alone"),
        ("orders.fee <= product.price", "no table 'product'; there are: products, countries, places, customers"),
    ],
)
def test_a_rule_that_no_one_public_row_goes_with_is_refused(rule, words):
    with pytest.raises(InvalidInput, match=words):
        ruling.judged(parse(rule), SHOP)


def test_the_columns_that_refer_to_a_public_table_are_those_of_a_row_and_of_the_rows_above_it():
    assert ruling.referring(SHOP, "items", "products") == [("items", "product")]
    assert ruling.referring(SHOP, "items", "countries") == [("customers", "country")]
    assert ruling.referring(SHOP, "items", "places") == [("orders", "from"), ("orders", "to")]
    assert ruling.referring(SHOP, "customers", "products") == []


PRODUCTS = pa.table({"sku": [30, 10, 20], "price": [3.0, 1.0, None], "name": ["c", "a", "b"]})


@pytest.mark.parametrize("stored", [pa.int64(), pa.string(), pa.float64()])
def test_a_row_is_looked_up_by_its_key_however_it_is_stored_and_a_null_or_unknown_one_finds_none(stored):
    keys = pa.chunked_array([pa.array([10, None, 30]).cast(stored), pa.array([20, 99, 10]).cast(stored)])
    wanted = [("products", "price"), ("products", "name")]
    found = ruling.looked_up(wanted, SHOP, "items", {("items", "product"): keys}, {"products": PRODUCTS})
    assert found["products", "price"].to_pylist() == [1.0, None, 3.0, None, None, 1.0]
    assert found["products", "name"].to_pylist() == ["a", None, "c", "b", None, "a"]


def test_a_row_is_looked_up_by_what_the_row_above_it_refers_to():
    countries = pa.table({"code": ["at", "de"], "tax": [20, 19]})
    columns = {("customers", "country"): pa.array(["de", "de", None, "at"])}
    found = ruling.looked_up([("countries", "tax")], SHOP, "items", columns, {"countries": countries})
    assert found["countries", "tax"].to_pylist() == [19, 19, None, 20]

"""Rules across tables are read as those of one table are, and judged on the table that hangs on all others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import ruling
from dp_synth_pipeline.relations.structure import Related, Relations
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

"""What no source could make right is refused of declared facts, and what some source could is not."""

import pyarrow as pa
import pytest

from dp_synth_pipeline.orchestration.metadata import column_schema
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.declarable import mistakes
from dp_synth_pipeline.tabular.declare import build


@pytest.mark.parametrize(
    "facts",
    [
        None,
        {},
        {"lower": 0, "upper": 9},
        {"lower": "2024-01-01"},
        {"lower": "1 day"},
        {"kind": "ordinal"},
        {"kind": "category", "categories": ["a"], "other": "draw"},
        {"kind": "constant", "constant": 3},
        {"kind": "excluded", "description": "free text"},
        {"zone": "Europe/Paris"},
        {"format": "%H:%M"},
        {"format": "1.234,5"},
        {"nulls": "constant", "constant": "unknown"},
    ],
)
def test_facts_that_hold_for_some_storage_type_are_no_mistake(facts):
    assert mistakes({"x": facts}) == {}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"desc": "x"}, "unknown fact 'desc'"),
        ({"descripton": "x"}, "constant, decimals, description, format"),
        ({"descripton": "x"}, "Did you mean description?"),
        ({"description": 3}, "description: expected text"),
        ({"nulls": "delete"}, "nulls: expected one of"),
        ({"kind": "integer", "zone": "Europe/Paris"}, "zone needs datetimes with a zone"),
        ({"kind": "date", "categories": ["a"]}, "kind date takes no categories"),
        ("text", "expected facts such as"),
    ],
)
def test_facts_that_hold_for_no_storage_type_are_told_by_column(facts, said):
    found = mistakes({"fine": {"kind": "integer"}, "x": facts})
    assert list(found) == ["x"]
    assert said in found["x"]


def test_a_description_is_for_readers_and_changes_no_schema_and_no_terms():
    storage, facts = {"age": pa.int64()}, {"lower": 0}
    plain, told = (build(storage, {"age": f}) for f in (facts, facts | {"description": "In years."}))
    assert plain == told
    terms = [
        ReleaseSettings(table="t", source="t.csv", account="a", epsilon=1, columns={"age": f})
        for f in (facts, facts | {"description": "In years."})
    ]
    assert terms[0].code_version() == terms[1].code_version()
    assert terms[1].descriptions == {"age": "In years."}
    assert column_schema(told, terms[1].descriptions).columns[0].description == "In years."

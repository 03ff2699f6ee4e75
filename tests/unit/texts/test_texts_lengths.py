"""A text's length stands for it: nulls stay nulls, lengths come back, and what a text cannot be is refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.kinds import lookup
from dp_synth_pipeline.tabular.schema import build

STORED = {"age": pa.int64(), "note": pa.large_string()}
TEXT = {"kind": "text", "max_length": 8}


def test_the_model_sees_the_length_of_a_text_and_no_other_column_changes():
    with_text, without = build(STORED, {"note": TEXT}), build({"age": pa.int64()})
    assert offsets.modelled(with_text)["age"] == without["age"]
    assert [c.name for c in offsets.modelled(with_text)] == ["age", "note: length"]
    rows = offsets.with_offsets(pa.table({"age": [1, 2, 3], "note": ["a  b", None, "much too long"]}), with_text)
    assert rows["note: length"].to_pylist() == [3, None, 8]
    back = offsets.restored({"age": rows["age"], "note: length": rows["note: length"].combine_chunks()}, with_text)
    assert back["note"].to_pylist() == [" " * 3, None, " " * 8]


def test_no_storage_type_is_text_unless_a_person_says_so():
    assert not any(lookup("text").recognises(t) for t in (pa.string(), pa.large_string(), pa.null()))
    assert build(STORED)["note"].kind.name == "category"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"kind": "text"}, "max_length"),
        ({"kind": "text", "max_length": 5_000}, "max_length"),
        ({**TEXT, "nulls": "mode"}, "keep or drop"),
        ({**TEXT, "categories": ["a"]}, "takes no categories"),
        ({"kind": "category", "max_length": 8}, "kind category has none"),
    ],
)
def test_facts_that_a_text_cannot_have_are_refused(facts, said):
    with pytest.raises(InvalidInput, match=said):
        build(STORED, {"note": facts})

"""Columns that tell the rows of one parent apart: which cannot, and which rows are the same."""

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import unique_rows
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.schema import build

STORAGE = {"id": pa.int64(), "who": pa.int64(), "day": pa.date32(), "test": pa.string(), "note": pa.string()}
SOURCE = build(
    STORAGE, {"note": {"kind": "text", "max_length": 80}, "id": {"kind": "identifier"}, "who": {"kind": "identifier"}}
)


def tests(*unique: str, **facts: object) -> Related:
    return Related(
        "tests", **{"key": "id", "parent": "people", "reference": "who", "max_rows": 5, "unique": unique, **facts}
    )


def test_columns_that_tell_rows_apart_are_taken():
    unique_rows.check(tests("day", "test", order="day"), SOURCE)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (tests("tset"), "no such column; .* Did you mean test"),
        (tests("id"), "made anew"),
        (tests("who", "test"), "made anew"),
        (tests("note"), "kind text"),
        (tests("test", static=("test",)), "static"),
        (tests("test", parent=None, reference=None), "root"),
    ],
)
def test_columns_that_cannot_are_refused_by_name(table, said):
    with pytest.raises(InvalidInput, match=rf"tables.tests: unique: .*{said}"):
        unique_rows.check(table, SOURCE)


def test_rows_repeat_others_of_their_parent_in_all_columns_together_and_the_last_of_them_does_not():
    parent = np.array([0, 0, 0, 0, 1, 1])
    day, test = pa.array([1, 1, 2, 1, 1, 1]), pa.array(["a", "b", "a", "a", "a", "b"])
    assert unique_rows.repeated(parent, [day, test]).tolist() == [True, False, False, False, False, False]
    assert unique_rows.repeated(parent, [test]).tolist() == [True, False, True, False, False, False]


def test_a_null_is_the_same_as_nothing_and_no_rows_repeat_none():
    parent = np.zeros(3, np.int64)
    assert not unique_rows.repeated(parent, [pa.array([None, None, None], pa.string())]).any()
    assert unique_rows.repeated(parent[:0], [pa.array([], pa.string())]).tolist() == []


def test_a_table_of_an_earlier_version_has_no_such_columns():
    assert Related.of({"name": "visits", "max_rows": 3}).unique == ()

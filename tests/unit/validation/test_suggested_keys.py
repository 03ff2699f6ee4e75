"""Columns that tell the real rows of one parent apart, and not the synthetic ones, are suggested as a key."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.related_frames import RelatedFrame
from dp_synth_pipeline.validation.suggested_keys import suggested_key

TABLE = Related("tests", None, "people", "who", order="day", max_rows=9)
SCHEMA = build(
    {"day": pa.int64(), "test": pa.string(), "ward": pa.string(), "score": pa.int64()}, {"day": {"kind": "integer"}}
)
RNG = np.random.default_rng(1)


def frame(parents: int, rows: int, distinct: tuple[str, ...]) -> RelatedFrame:
    """Return rows by chance, of which none of one parent is the same in all of `distinct`."""
    parent = np.repeat(np.arange(parents), rows)
    values = {
        "day": RNG.integers(0, 4, len(parent)),
        "test": RNG.choice(list("abcd"), len(parent)),
        "ward": RNG.choice(list("xy"), len(parent)),
        "score": RNG.integers(0, 9, len(parent)),
    }
    found = pd.DataFrame({"parent": parent, **values})
    found = found.drop_duplicates(["parent", *distinct]) if distinct else found
    parent = found.pop("parent").to_numpy()
    return RelatedFrame(found.reset_index(drop=True), parent, parent)


@pytest.mark.parametrize("columns", [("test",), ("day", "test"), ("test", "ward"), ("day", "test", "ward"), ("day",)])
def test_the_fewest_columns_that_tell_all_real_rows_apart_are_suggested(columns):
    real, synthetic = frame(400, 6, columns), frame(400, 6, ())
    key = suggested_key(TABLE, SCHEMA, real, synthetic)
    assert key is not None
    assert key.columns == columns
    assert key.rows == len(real.steps[0])
    assert key.broken == pytest.approx(synthetic.rows.assign(p=synthetic.parent).duplicated(["p", *columns]).mean())


def test_nothing_is_suggested_where_synthetic_rows_keep_it_or_real_ones_do_not_or_it_is_declared_or_few_rows_tell():
    kept, free = frame(400, 6, ("test",)), frame(400, 6, ())
    assert suggested_key(TABLE, SCHEMA, kept, kept) is None
    assert suggested_key(TABLE, SCHEMA, free, free) is None
    assert suggested_key(replace(TABLE, unique=("day", "test")), SCHEMA, kept, free) is None
    assert suggested_key(TABLE, SCHEMA, frame(20, 6, ("test",)), free) is None


def test_numbers_and_what_is_the_same_in_all_rows_tell_nothing():
    real, synthetic = frame(400, 6, ("score",)), frame(400, 6, ())
    assert suggested_key(TABLE, SCHEMA, real, synthetic) is None
    real = frame(400, 6, ("test",))
    assert suggested_key(replace(TABLE, static=("test",)), SCHEMA, real, synthetic) is None


def test_a_null_is_the_same_as_nothing():
    real = frame(400, 6, ("test",))
    nulls = real.rows.assign(test=real.rows["test"].where(real.rows["test"] != "a", None))
    more = pd.concat([nulls, pd.DataFrame([{"day": 0, "test": None, "ward": "x", "score": 1}] * 3)], ignore_index=True)
    parent = np.append(real.parent, [399] * 3)
    key = suggested_key(TABLE, SCHEMA, RelatedFrame(more, parent, parent), frame(400, 6, ()))
    assert key is not None
    assert key.columns == ("test",)

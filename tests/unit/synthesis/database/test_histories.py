"""What is counted of the rows of tables below others."""

from types import SimpleNamespace

import pyarrow as pa

from dp_synth_pipeline.synthesis.database import histories
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build


def test_columns_of_the_source_whose_codes_are_a_value_each_may_determine_others():
    storage = {"day: to the next": pa.int64(), "code": pa.string(), "price": pa.int64(), "grade": pa.int64()}
    schema = build(storage, {"code": {"kind": "category"}})
    gap, code, price, grade = schema
    columns = (
        ColumnProfile(gap.name, gap.kind, (0, 1), (0.5, 0.5), (), ()),
        ColumnProfile(code.name, code.kind, ("a", "b"), (0.6, 0.4), (), ()),
        ColumnProfile(price.name, price.kind, (5,), (0.1,), ((0, 100), (100, 200)), (0.6, 0.3)),
        ColumnProfile(grade.name, grade.kind, (1, 2), (0.5, 0.4), ((3, 9),), (0.1,)),
    )
    codec = TableCodec(schema, TableProfile(100, 100, "row", columns, ()))
    release = SimpleNamespace(codec=codec, source=SimpleNamespace(names=["day", "code", "price", "grade"]))
    assert [codec.encoded[i] for i in histories._telling(release)] == ["code", "grade"]  # type: ignore[arg-type]

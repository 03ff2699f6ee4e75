"""What is counted of the rows of tables below others."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.synthesis.database import histories
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build


def test_other_columns_are_counted_together_where_noise_does_not_hide_their_cells(monkeypatch):
    sizes = {"code": 3, "price": 10, "amount": 10, "day: to the next": 10}
    shares = [np.full(size, 1 / size) for size in sizes.values()]
    monkeypatch.setattr(histories, "determining", lambda _: [0])
    monkeypatch.setattr(histories, "rows_each", lambda *_, over_persons=False: 5.0 if over_persons else 8.0)

    def counted(noise):
        release = SimpleNamespace(
            name="payments",
            codec=SimpleNamespace(marginals=lambda: shares, encoded=list(sizes)),
            source=SimpleNamespace(names=["code", "price", "amount"]),
            profile=SimpleNamespace(population=1000),
            allocation=SimpleNamespace(history_counts=lambda population, spent: noise),
            spent=(),
        )
        layout = histories._counted(release, None, {"payments": release}, ())  # type: ignore[arg-type, dict-item]
        return [clique for clique in layout.cliques if len(clique) == 2]

    assert counted(0.0) == [(0, 1), (0, 2), (1, 2)], "what is derived of the source is not"
    assert counted(8.0) == [(0, 1), (0, 2)], "of 100 cells, noise hides each"
    assert counted(100.0) == []


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
    assert [codec.encoded[i] for i in histories.determining(release)] == ["code", "grade"]  # type: ignore[arg-type]

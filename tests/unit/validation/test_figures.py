"""All figures of the report together."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import figures as module
from dp_synth_pipeline.validation.figures import check_declared, measure
from tests.unit.validation.tables import good, schema


def test_every_figure_of_a_table_against_itself_is_perfect() -> None:
    real = good().to_pandas(types_mapper=pd.ArrowDtype)
    found = measure(real, real, schema(), sensitive=["member"])
    assert found.fidelity.verdict == "excellent"
    assert found.accuracy.overall == 1
    assert found.relations.real == found.relations.synthetic
    assert found.nulls is not None
    assert found.nulls.distance == 0
    assert found.groups is not None
    assert all(g.distance == 0 for g in found.groups.groups)
    assert found.told_apart is not None
    assert abs(found.told_apart.auc - 0.5) < 5 * found.told_apart.spread


def test_the_same_tables_give_the_same_figures() -> None:
    real, synthetic = good().to_pandas(), good(1).to_pandas()
    a, b = (measure(real, synthetic, schema(), predict="member") for _ in range(2))
    assert (a.told_apart, a.accuracy, a.relations) == (b.told_apart, b.accuracy, b.relations)
    assert a.prediction is not None
    assert b.prediction is not None
    assert a.prediction.synthetic == b.prediction.synthetic


def test_large_tables_are_sampled_and_say_so(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 200)
    found = measure(good().to_pandas(), good(1).to_pandas(), schema(), sensitive=["member"])
    assert found.sampled
    assert found.fidelity.rows_real == 400
    assert not measure(good().to_pandas()[:150], good(1).to_pandas()[:150], schema()).sampled


@pytest.mark.parametrize(("predict", "sensitive"), [("diagnosis", []), (None, ["diagnosis"]), ("id", [])])
def test_a_declared_column_that_is_not_learned_is_refused(predict, sensitive) -> None:
    names = [column.name for column in schema().compared]
    with pytest.raises(InvalidInput, match=r"diagnosis|'id'"):
        check_declared(names, predict, sensitive)
    check_declared(names, "member", ["sector"])


@pytest.mark.parametrize("column", ["age", "sector", "joined", "seen", "member"])
def test_a_column_of_nulls_alone_is_measured_without_an_exception(column: str) -> None:
    real = good().to_pandas()
    real[column] = None
    found = measure(real, good().to_pandas(), schema(), predict=column, sensitive=[column])
    assert found.prediction is None
    assert found.accuracy.one < 1


def test_one_column_of_few_rows_is_measured() -> None:
    frame = pd.DataFrame({"n": [1.5, None, 2.5]})
    found = measure(frame, frame, build({"n": pa.float64()}), predict="n")
    assert found.prediction is found.told_apart is None
    assert found.accuracy.two is None

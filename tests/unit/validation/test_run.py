"""Great Expectations at work on good and on spoiled tables."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Kind, build
from dp_synth_pipeline.validation.checks import Check, CheckResult
from dp_synth_pipeline.validation.expectations import suite_for
from dp_synth_pipeline.validation.run import validate
from tests.unit.validation.tables import ROWS, good, profile, schema, spoiled

SUITE = suite_for(schema(), profile(), ROWS)


def failures(table, suite=SUITE) -> dict[str, CheckResult]:
    return {r.name: r for r in validate(table, suite) if not r.passed}


def test_a_good_table_passes_every_check() -> None:
    results = validate(good(), SUITE)
    assert [r.name for r in results] == [c.name for c in SUITE]
    assert [r.name for r in results if not r.passed] == []


def test_a_parquet_file_and_a_dataframe_give_the_same_verdict(tmp_path) -> None:
    pq.write_table(good(), tmp_path / "synthetic.parquet")
    assert failures(tmp_path / "synthetic.parquet") == {}
    assert failures(good().to_pandas()) == {}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("age", 91),
        ("amount", 100.2),
        ("amount", float("nan")),
        ("sector", "west"),
        ("grade", 4),
        ("joined", date(2030, 1, 1)),
        ("seen", datetime(1990, 1, 1)),
        ("logged", datetime(2030, 1, 1, tzinfo=UTC)),
        ("id", 5),
    ],
)
def test_one_value_out_of_its_domain_fails_that_check_alone_and_blocks(column: str, value) -> None:
    failed = failures(spoiled(column, value))
    also = {"identifiers_regenerated"} if column == "id" else set()
    assert set(failed) == {f"{column}__domain"} | also
    assert failed[f"{column}__domain"].blocks
    assert failed[f"{column}__domain"].observed["unexpected"] >= 1


def test_another_storage_type_fails_the_type_check_and_blocks() -> None:
    table = good()
    wide = table.set_column(1, "age", table["age"].cast(pa.int64()))
    failed = failures(wide)
    assert set(failed) == {"age__type"}
    assert failed["age__type"].blocks
    assert failed["age__type"].observed == {"expected": "int32", "found": "int64"}


def test_text_where_a_dataframe_should_hold_numbers_fails_the_type_check() -> None:
    frame = good().to_pandas()
    frame["grade"] = frame["grade"].astype(str)
    assert "grade__type" in failures(frame)


def test_too_many_nulls_are_a_warning() -> None:
    failed = failures(spoiled("age", None, rows=120))
    assert set(failed) == {"age__nulls"}
    assert not failed["age__nulls"].blocks
    assert failed["age__nulls"].observed["null_rate"] > 0.3


def test_a_null_in_an_identifier_blocks() -> None:
    assert failures(spoiled("id", None))["id__nulls"].blocks


def test_a_wrong_number_of_rows_blocks() -> None:
    failed = failures(good().slice(0, ROWS - 1))
    assert set(failed) == {"row_count"}
    assert failed["row_count"].observed == {"expected": ROWS, "found": ROWS - 1}


def test_a_missing_column_fails_its_checks_by_name() -> None:
    failed = failures(good().drop_columns(["sector"]))
    assert set(failed) == {"columns", "sector__type", "sector__domain", "sector__nulls"}
    assert failed["sector__domain"].observed == {"problem": "the column is missing"}
    assert failed["columns"].observed["missing"] == ["sector"]


def test_columns_in_another_order_fail_the_columns_check_alone() -> None:
    table = good()
    assert set(failures(table.select(table.schema.names[::-1]))) == {"columns"}


def test_a_column_that_occurs_twice_fails_without_an_exception() -> None:
    table = good()
    failed = failures(table.append_column("age", table["age"]))
    assert {"columns", "age__type"} <= set(failed)


def test_an_expectation_that_cannot_be_evaluated_has_failed_and_quotes_no_cell() -> None:
    check = Check(
        "odd", "sector", "range", True, "?", "expect_column_values_to_be_between", {"column": "sector", "min_value": 3}
    )
    failed = failures(good(), [check])["odd"]
    assert failed.observed["problem"].startswith("could not be evaluated")
    assert "north" not in json.dumps(failed.observed)


def test_an_unknown_expectation_is_refused_by_name() -> None:
    check = Check("odd", "age", "range", True, "?", "expect_age_to_be_nice", {"column": "age"})
    with pytest.raises(InvalidInput, match="expect_age_to_be_nice"):
        validate(good(), [check])


def test_what_was_observed_is_json_and_holds_no_cell() -> None:
    text = json.dumps([r.observed for r in validate(spoiled("sector", "a_telling_value"), SUITE)])
    assert "a_telling_value" not in text


def test_nothing_is_printed(capfd) -> None:
    validate(good().drop_columns(["sector"]), SUITE)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_sixty_expectations_on_50000_rows_take_less_than_ten_seconds() -> None:
    rows, names = 50_000, [f"n{i}" for i in range(20)]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.integers(0, 100, rows) for n in names})
    columns = tuple(ColumnProfile(n, Kind.INTEGER, (), (), ((0.0, 100.0),), (1.0,)) for n in names)
    suite = suite_for(build(dict.fromkeys(names, pa.int64())), TableProfile(rows, rows, "row", columns), rows)
    started = time.perf_counter()
    assert len(suite) > 60
    assert all(r.passed for r in validate(frame, suite))
    assert time.perf_counter() - started < 10

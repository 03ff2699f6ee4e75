"""A failing check of each kind keeps a table from being published; rules and a person's own suite run beside ours."""

import json

import dagster as dg
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.targets import sink
from tests.integration.conftest import failure, lent, steps

ROWS = 300
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

COLUMNS = {
    "person": {"kind": "identifier"},
    "start": None,
    "end": None,
    "fee": {"lower": 0, "upper": 50},
    "tax": {"lower": 0, "upper": 50},
    "total": {"lower": 0, "upper": 100, "decimals": 2},
    "country": {"categories": ["ES", "FR", "PE"]},
    "currency": {"categories": ["EUR", "PEN"]},
    "level": {"kind": "constant", "constant": 3},
}
RULES = ["start <= end", "start >= 0", "total = fee + tax", "country -> currency"]
SUITE = {
    "name": "mine",
    "expectations": [
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "start", "max_value": 1000}},
        {
            "type": "expect_column_values_to_match_regex",
            "kwargs": {"column": "currency", "regex": "^X"},
            "severity": "warning",
            "meta": {"check": "euro"},
        },
    ],
}


def bills(rows: int = 500) -> pd.DataFrame:
    """A table whose rows keep every rule; values are public, so a fixed stream is fine."""
    g = np.random.Generator(np.random.PCG64(7))
    start, country = g.integers(0, 60, rows), g.choice(["ES", "FR", "PE"], rows)
    fee, tax = g.integers(0, 5000, rows) / 100, g.integers(0, 5000, rows) / 100
    return pd.DataFrame(
        {
            "person": np.arange(rows),
            "start": start,
            "end": start + g.integers(0, 30, rows),
            "fee": fee,
            "tax": tax,
            "total": np.round(fee + tax, 2),
            "country": country,
            "currency": np.where(country == "PE", "PEN", "EUR"),
            "level": 3,
        }
    )


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A table that was published once."""
    folder = tmp_path_factory.mktemp("chain")
    with lent(folder, f"sqlite:///{folder / 'ledger.db'}") as bench:
        bills().to_parquet(folder / "people.parquet", index=False)
        (folder / "mine.json").write_text(json.dumps(SUITE))
        result = bench.refresh(**asked(bench))
        assert result.success, failure(result)
        yield bench, result


def asked(bench, **validation):
    return {
        "columns": COLUMNS,
        "columns_complete": True,
        "rows": ROWS,
        "population": 500,
        "training": {"method": "autoregressive", "start": "random", "max_epochs": 1},
        "validation": {"rules": RULES, "suite": str(bench.folder / "mine.json"), **validation},
    }


def redraw(bench, **validation):
    """Draw, check and publish again, which is free."""
    definitions = bench.definitions(**asked(bench, **validation))
    keys = [k for k in definitions.resolve_all_asset_keys() if k.path[-1] in ("synthetic", "published")]
    return definitions.resolve_job_def("people_refresh").execute_in_process(
        instance=bench.instance, raise_on_error=False, asset_selection=keys, run_config=QUIET
    )


def published(bench) -> list[tuple]:
    with duckdb.connect(str(bench.folder / "warehouse.duckdb"), read_only=True) as con:
        return con.sql("SELECT * FROM synthetic.people").fetchall()


def evaluations(result) -> dict:
    found = [e for e in result.all_events if e.event_type_value == "ASSET_CHECK_EVALUATION"]
    return {e.asset_check_evaluation_data.check_name: e.asset_check_evaluation_data for e in found}


def failed(result) -> set[str]:
    return {name for name, e in evaluations(result).items() if not e.passed and e.blocking}


def put(table: pa.Table, column: str, value, rows: int = 1) -> pa.Table:
    """Return the table with a value in the first rows of one column."""
    kind = table.schema.field(column).type
    values = [value] * rows + table[column].to_pylist()[rows:]
    return table.set_column(table.schema.get_field_index(column), column, pa.array(values, kind))


def recast(table: pa.Table, column: str, kind: pa.DataType) -> pa.Table:
    return table.set_column(table.schema.get_field_index(column), column, table[column].cast(kind))


def crossed(table: pa.Table) -> pa.Table:
    """Put the first row's start after its end, both within their ranges."""
    return put(put(table, "start", pc.max(table["start"]).as_py()), "end", pc.min(table["end"]).as_py())


TAMPERED = {
    "columns": (lambda t: t.select(t.schema.names[::-1]), {"columns"}),
    "row_count": (lambda t: t.slice(1), {"row_count"}),
    "type": (lambda t: recast(t, "start", pa.int32()), {"start__type"}),
    "domain": (lambda t: put(t, "country", "XX"), {"country__domain"}),
    "range": (lambda t: put(put(t, "fee", 60.0), "total", None), {"fee__domain"}),
    "nulls": (lambda t: put(t, "person", None), {"person__nulls"}),
    "uniqueness": (lambda t: put(t, "person", t["person"][1].as_py()), {"person__domain"}),
    "constant": (lambda t: put(t, "level", 4), {"level__domain"}),
    "rule of two columns": (crossed, {"rule_1__start_le_end"}),
    "rule of a literal": (lambda t: put(t, "start", -5), {"rule_2__start_ge_0", "start__domain"}),
    "rule of a sum": (lambda t: put(t, "total", 99.99), {"rule_3__total_eq_fee_plus_tax"}),
    "rule of a dependency": (
        lambda t: put(t, "currency", "EUR" if t["currency"][0].as_py() == "PEN" else "PEN"),
        {"rule_4__country_gives_currency"},
    ),
    "a person's own": (lambda t: put(t, "start", 10**7, rows=1), {"own_1__column_mean_to_be_between_start"}),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_failing_check_of_each_kind_keeps_the_table_from_being_published(chain, monkeypatch, kind):
    bench, _ = chain
    tamper, expected = TAMPERED[kind]
    before, write = published(bench), sink.write_parquet

    def spoiled(batches, schema, path):
        rows = write(batches, schema, path)
        pq.write_table(tamper(pq.read_table(path)), path)
        return rows

    monkeypatch.setattr(sink, "write_parquet", spoiled)
    result = redraw(bench)
    assert not result.success
    assert steps(result, "STEP_SUCCESS") == {"synthetic"}
    assert expected <= failed(result)
    assert len(failed(result)) <= len(expected) + 3  # only what the spoiled cell touches
    assert published(bench) == before


def test_what_was_published_keeps_every_rule(chain):
    bench, _ = chain
    table = pq.read_table(bench.store / "releasable/people/synthetic.parquet")
    rows = pd.DataFrame(published(bench), columns=table.schema.names)
    assert len(rows) == ROWS
    assert (rows["start"] <= rows["end"]).all()
    assert np.allclose(rows["total"], rows["fee"] + rows["tax"], atol=0.0051)
    assert rows.groupby("country")["currency"].nunique().max() == 1
    assert sorted(rows["person"]) == list(range(1, ROWS + 1))


def test_every_check_is_named_before_anything_is_read_and_all_of_them_report(chain):
    bench, result = chain
    definitions = bench.definitions(**asked(bench))
    keys = {k for c in definitions.asset_checks for k in c.check_keys}  # type: ignore[union-attr]
    specs = {k.name for k in keys if k.asset_key.path[-1] == "synthetic"}
    assert specs <= set(evaluations(result))
    assert {"rule_1__start_le_end", "own_1__column_mean_to_be_between_start", "own__euro"} <= specs
    assert not evaluations(result)["own__euro"].passed  # a warning: the table was published all the same
    assert not evaluations(result)["own__euro"].blocking


def test_severities_turn_a_warning_into_a_block_and_a_block_into_a_warning(chain):
    bench, _ = chain
    before = published(bench)
    blocked = redraw(bench, severity={"own__*": "block"})
    assert failed(blocked) == {"own__euro"}
    assert published(bench) == before
    passed = redraw(bench, enforce_rules=False, severity={"rule_*": "warn", "person__*": "block"})
    assert passed.success
    assert not evaluations(passed)["rule_3__total_eq_fee_plus_tax"].passed
    assert published(bench) != before


def test_suite_and_data_docs_lie_beside_the_table_and_ask_the_network_for_nothing(chain):
    bench, _ = chain
    folder = bench.store / "releasable/people"
    suite = json.loads((folder / "suite.json").read_text())
    page = (folder / "data_docs/index.html").read_text()
    assert {e["meta"]["check"] for e in suite["expectations"]} >= {"row_count", "rule_1__start_le_end", "own__euro"}
    assert "every row keeps the rule start" in page.lower()
    assert "<script" not in page
    assert "src=" not in page
    assert "://" not in page


def test_some_checks_can_be_run_alone(chain):
    bench, _ = chain
    definitions = bench.definitions(**asked(bench))
    key = dg.AssetCheckKey(dg.AssetKey(["people", "synthetic"]), "row_count")
    job = dg.define_asset_job("one", dg.AssetSelection.checks(key))
    whole = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job]))
    result = whole.resolve_job_def("one").execute_in_process(instance=bench.instance, run_config=QUIET)
    assert set(evaluations(result)) == {"row_count"}


def test_a_rule_on_columns_that_cannot_keep_it_is_refused_before_anything_is_charged(bench):
    with pytest.raises(InvalidInput, match=r"'income <= nothing'.*no column 'nothing'"):
        bench.definitions(columns={"income": None}, columns_complete=True, validation={"rules": ["income <= nothing"]})
    result = bench.refresh(validation={"rules": ["city <= income"]})
    assert "city <= income" in failure(result).user_failure_data.description
    assert bench.ledger.balance("people").epsilon_spent == 0


def test_a_missing_or_broken_suite_is_refused_while_definitions_load(bench):
    with pytest.raises(InvalidInput, match=r"mine\.yaml cannot be read"):
        bench.definitions(validation={"suite": str(bench.folder / "mine.yaml")})
    (bench.folder / "mine.yaml").write_text("expectations: [{type: expect_age_to_be_nice}]")
    with pytest.raises(InvalidInput, match="no expect_age_to_be_nice"):
        bench.definitions(validation={"suite": str(bench.folder / "mine.yaml")})

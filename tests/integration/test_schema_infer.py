"""`dp-synth schema`: a schema discovered at a charge, written for a person, and usable as a declaration."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml

from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.synthesis import schema_inference
from dp_synth_pipeline.tabular import declare
from dp_synth_pipeline.tabular.sources import ingestion, source
from tests.integration.conftest import people

ROWS = 3000


@pytest.fixture
def run(shell):
    """The command line in a folder with a table of 3,000 people and an account for it."""
    frame = people(ROWS).assign(children=np.arange(ROWS) % 4, note=[f"n{i // 2}" for i in range(ROWS)], land="IT")
    frame.to_parquet(shell.folder / "people.parquet")
    assert shell("ledger", "open", "people", "--epsilon", 6).code == 0
    return shell


def infer(run, *args, epsilon=1, out="schema.yaml"):
    return run("schema", "infer", "people.parquet", "--epsilon", epsilon, "--out", out, *args)


def test_an_inferred_schema_is_charged_once_read_by_a_person_and_declared_by_them(run):
    done = infer(run)
    assert done.code == 0, done.err
    assert "rows of one person are protected one by one" in done.err
    (release,) = run.ledger().releases("people")
    entries = run.ledger().entries(release_id=release.id)
    assert release.state == "settled"
    assert [e.mechanism for e in entries] == ["row count", "profile"]
    events = [v for e in entries for v in e.events]
    assert accountant.epsilon(events, release.final_delta) == release.final_epsilon <= 1
    # A Rényi filter bounds the Rényi divergence too, which costs a little more than the epsilon that is asked.
    assert release.charged_cost > 0.97 * release.reserved_cost or release.final_epsilon > 0.97
    run.ledger().verify()

    text = (run.folder / "schema.yaml").read_text()
    head = text.partition("columns:")[0]
    for fact in (
        "people.parquet",
        release.id,
        "account people",
        f"epsilon {release.final_epsilon:.4g}",
        "costs nothing",
    ):
        assert fact in head
    *remarks, paid_by = head.splitlines()
    assert all(line.startswith("#") for line in remarks)
    assert paid_by == f"inferred_by: {release.id}"
    columns = yaml.safe_load(text)["columns"]
    assert columns["city"] == {"kind": "category", "categories": ["Rome", "Oslo", "Lima"]}
    assert columns["children"] == {"kind": "ordinal", "categories": ["0", "1", "2", "3"]}
    assert columns["note"] == {"kind": "excluded"}
    # Ages are 18 to 79. A first cell is cut if noise explains all of it; 340 rows, up to 24, it never does (9 deviations).
    # Ends are loose where noise says so, and reach as far again at most: days are a year's, 2024.
    assert 0 <= columns["age"]["lower"] <= 24
    assert 70 <= columns["age"]["upper"] <= 140
    assert columns["income"]["decimals"] == 2
    assert columns["score"]["nulls"] == "keep"
    assert "2022-12-01" <= columns["seen"]["lower"] <= "2024-01-01"
    assert "2024-12-30" <= columns["seen"]["upper"] <= "2026-02-01"
    told = re.search(r"Rome (\d+)", text)
    assert told is not None
    assert float(told[1]) == pytest.approx(60, abs=12)  # noise of about two points
    assert "one value only" in text
    declared = TableSettings(table="t", source="people.parquet", account="people", epsilon=1, columns=columns).columns
    types = ingestion.column_types(source.parse(str(run.folder / "people.parquet")))
    schema = declare.build(types, declared, complete=True)
    assert schema["seen"].upper.year in (2025, 2026)
    assert schema_inference.load(run.folder / "schema.yaml")["columns"] == columns


def test_nothing_of_the_rows_stays_after_a_schema_was_inferred(run):
    assert infer(run).code == 0
    assert not [f for f in (run.folder / "home/store/restricted").rglob("*") if f.is_file()]
    assert (run.folder / "home/store/releasable/people/schema.yaml").read_text() == (
        run.folder / "schema.yaml"
    ).read_text()


def test_a_release_with_the_inferred_schema_spends_less_on_its_profile_and_works(run):
    assert infer(run, epsilon=0.5).code == 0
    done = run(
        "synthesize", "people.parquet", "--out", "o.parquet", "--epsilon", 2, "--account", "people",
        "--schema", "schema.yaml", "--purpose", "testing", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    told, (schema, release) = json.loads(done.out), run.ledger().releases("people")
    card = json.loads((run.folder / "home/store/releasable/people/release_card.json").read_text())
    assert {m["release"] for m in card["reused"]} == {schema.id}, "the table is a function of its schema too"
    assert told["epsilon"] == card["epsilon"] > release.final_epsilon == told["epsilon_added"] == card["added_epsilon"]
    drawn = pd.read_parquet(run.folder / "o.parquet")
    assert "note" not in drawn.columns
    # One time in a thousand, noise looks like nulls in a column that has none.
    assert set(drawn["children"].dropna()) <= {0, 1, 2, 3}
    assert set(drawn["city"].dropna()) <= {"Rome", "Oslo", "Lima"}


def test_a_schema_that_the_account_cannot_pay_is_refused_before_the_source_is_opened(run):
    (run.folder / "people.parquet").write_bytes(b"not a table")
    done = infer(run, epsilon=60)
    assert done.code == 3
    assert run.ledger().releases("people") == []


def test_a_source_that_cannot_be_used_by_public_facts_costs_nothing(run):
    pd.DataFrame({"a": [b"x"]}).to_parquet(run.folder / "people.parquet")
    done = infer(run)
    assert (done.code, "cannot be synthesized" in done.text) == (2, True)
    assert [r.state for r in run.ledger().releases("people")] == ["voided"]
    assert not [f for f in (run.folder / "home/store/restricted").rglob("*") if f.is_file()]
    assert not (run.folder / "schema.yaml").exists()


def test_a_schema_that_breaks_half_way_is_charged_for_what_started_and_says_no_value(run, monkeypatch):
    from dp_synth_pipeline.tabular.profiling import measure

    def broken(*args, **kwargs):
        raise RuntimeError("SECRET-CELL")

    monkeypatch.setattr(measure, "measure", broken)
    done = infer(run)
    assert done.code == 1
    assert "SECRET-CELL" not in done.text
    assert "RuntimeError" in done.text
    (release,) = run.ledger().releases("people")
    assert release.state == "settled"
    assert {e.mechanism for e in run.ledger().entries(release_id=release.id)} == {"row count", "profile"}
    assert not [f for f in (run.folder / "home/store/restricted").rglob("*") if f.is_file()]


def test_an_account_may_be_opened_for_the_schema_alone(run):
    done = infer(run, "--account", "once", "--open-account")
    assert done.code == 0, done.err
    assert infer(run, "--account", "once", out="again.yaml").code == 3


@pytest.mark.parametrize(
    "options",
    [["--unit", "person", "--max-rows", "2"], ["--relation", "replace-one"]],
    ids=["unit", "replace-one"],
)
def test_units_of_several_rows_and_replaced_rows_are_paid_for(run, options):
    assert run("ledger", "open", "other", "--epsilon", 6, *options).code == 0
    unit = options if options[0] == "--unit" else []
    done = infer(run, "--account", "other", *unit)
    assert done.code == 0, done.err
    (release,) = run.ledger().releases("other")
    assert 0.98 < release.final_epsilon <= 1, "all of it is used, whatever one unit moves"
    run.ledger().verify()


def test_a_schema_file_that_exists_is_not_overwritten_and_costs_nothing(run):
    (run.folder / "schema.yaml").write_text("columns: {}  # mine")
    done = infer(run)
    assert (done.code, "exists" in done.text) == (2, True)
    assert run.ledger().releases("people") == []


def test_names_and_column_types_are_shown_free_and_without_a_value(run):
    frame = pd.read_parquet(run.folder / "people.parquet")
    frame.loc[0, "city"] = "CANARY"
    frame.to_csv(run.folder / "people.csv", index=False)
    for name in ("people.parquet", "people.csv"):
        done = run("schema", "show", name)
        assert done.code == 0
        assert all(name in done.text for name in ("city", "smoker", "seen"))
        assert ("timestamp[" in done.text) == ("boolean" in done.text) == name.endswith("parquet")
        assert "CANARY" not in done.text
        assert "protect them together: --unit person" in done.err
    assert run.ledger().releases() == []


def test_the_schema_of_a_csv_is_inferred_with_its_types_which_are_charged(run):
    frame = pd.read_parquet(run.folder / "people.parquet").assign(price="$1,200")
    frame.to_csv(run.folder / "people.csv", index=False)
    done = run("schema", "infer", "people.csv", "--epsilon", 1, "--account", "people", "--out", "schema.yaml")
    assert done.code == 0, done.err
    (release,) = run.ledger().releases("people")
    entries = run.ledger().entries(release_id=release.id)
    assert [e.mechanism for e in entries] == ["row count", "types", "profile"]
    assert accountant.epsilon([v for e in entries for v in e.events], release.final_delta) == release.final_epsilon <= 1
    columns = yaml.safe_load((run.folder / "schema.yaml").read_text())["columns"]
    kinds = {n: c["kind"] for n, c in columns.items()}
    assert kinds["smoker"] == "boolean"
    assert kinds["seen"] == "date"
    assert kinds["income"] == kinds["price"] == "decimal"


@pytest.mark.parametrize("text", ["columns: [1]", "- a", "a: {", "{}"])
def test_a_file_that_is_no_schema_is_refused_before_anything_is_spent(run, text):
    (run.folder / "bad.yaml").write_text(text)
    done = run("synthesize", "people.parquet", "--out", "o.parquet", "--epsilon", 1, "--schema", "bad.yaml")
    assert done.code == 2
    assert run.ledger().releases() == []

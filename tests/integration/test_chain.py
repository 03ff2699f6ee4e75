"""The whole graph on a real file: what is materialized, what is charged, what stops it."""

import datetime as dt
import json
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy import accountant
from tests.integration.conftest import failure, lent, steps

LINKS = {
    "ingested",
    "profile",
    "completed",
    "marginals",
    "generator",
    "synthetic",
    "checks",
    "published",
    "quality_report",
    "release_card",
}


def refreshed(bench):
    result = bench.refresh()
    assert result.success, failure(result)
    return bench, result


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One refresh, for tests that only look at it, or draw from it again."""
    folder = tmp_path_factory.mktemp("done")
    with lent(folder, f"sqlite:///{folder / 'ledger.db'}") as bench:
        yield refreshed(bench)


def test_one_refresh_materializes_every_link_and_costs_at_most_what_was_asked(done):
    bench, result = done
    assert steps(result, "STEP_SUCCESS") == LINKS
    (release,) = bench.ledger.releases("people")
    assert release.state == "settled"
    assert 0 < release.final_epsilon <= 4.0
    entries = bench.ledger.entries(release_id=release.id)
    assert [e.mechanism for e in entries] == ["row count", "profile", "marginals", "training"]
    events = [event for e in entries for event in e.events]
    assert accountant.epsilon(events, release.final_delta) <= 4.0
    assert bench.ledger.verify().releases == 1


def test_the_published_table_has_the_columns_types_and_about_the_nulls_of_the_source(done):
    bench, _ = done
    real = pq.read_table(bench.folder / "people.parquet")
    with duckdb.connect(str(bench.folder / "warehouse.duckdb"), read_only=True) as con:
        drawn = con.sql("SELECT * FROM synthetic.people").to_arrow_table()
        types = {name: kind for name, kind, *_ in con.sql("DESCRIBE synthetic.people").fetchall()}
    wanted = {"age": "BIGINT", "city": "VARCHAR", "income": "DOUBLE", "smoker": "BOOLEAN"}
    assert types == {**wanted, "seen": types["seen"], "score": "DOUBLE"}
    assert types["seen"].startswith("TIMESTAMP")
    for name in types:  # noise alone gives one column in 700 some nulls
        assert abs(drawn[name].null_count / len(drawn) - real[name].null_count / len(real)) < 0.2
    assert set(drawn["city"].drop_null().to_pylist()) <= {"Rome", "Oslo", "Lima"}
    incomes = drawn["income"].drop_null().to_numpy()
    assert (incomes.round(2) == incomes).all()
    assert abs(len(drawn) - len(real)) < 300


def test_assets_say_what_they_cost_and_whether_they_may_leave(done):
    _, result = done
    facts = {e.asset_key.path[-1]: e.materialization.metadata for e in result.get_asset_materialization_events()}
    restricted = {name for name, m in facts.items() if m["visibility"].value == "restricted"}
    assert restricted == {"ingested", "completed", "quality_report"}
    assert facts["published"]["epsilon"].value <= 4.0
    assert facts["published"]["account"].value == "people"
    lineage = facts["synthetic"]["dagster/column_lineage"].value
    assert lineage.deps_by_column["age"][0].asset_key.path == ["people", "source"]


def test_card_and_report_are_written_and_the_report_stays_restricted(done):
    bench, _ = done
    card = json.loads((bench.store / "releasable/people/release_card.json").read_text())
    assert "people" in json.dumps(card)
    report = bench.store / "restricted/people/quality_report.html"
    assert report.exists()
    assert (bench.store / "restricted").stat().st_mode & 0o077 == 0


def test_a_second_run_is_a_second_charge_until_the_ledger_refuses(bench):
    bench.refresh()
    outcomes = []
    while len(outcomes) < 12:
        before = bench.ledger.head()
        result = bench.refresh()
        outcomes.append(result.success)
        if not result.success:
            break
    assert not outcomes[-1]
    told = failure(result).user_failure_data
    assert told.metadata["error"].value == "BudgetExceeded"
    assert told.metadata["exit_code"].value == 3
    assert (
        "at this noise" in told.metadata["details"].value
    )  # it knows the last release, so it can say which steps would fit
    assert bench.ledger.head() == before
    assert steps(result, "STEP_SUCCESS") == set()


def test_a_refusal_comes_before_the_source_is_opened(bench):
    (bench.folder / "people.parquet").unlink()
    result = bench.refresh(epsilon=50.0)
    assert failure(result).user_failure_data.metadata["error"].value == "BudgetExceeded"


def test_a_refusal_is_never_retried(bench):
    result = bench.refresh(epsilon=50.0)
    assert failure(result).error is not None
    assert not [e for e in result.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]


def test_a_source_that_lacks_a_declared_column_voids_the_release_and_charges_nothing(bench):
    result = bench.refresh(columns={"nobody": {"kind": "category"}})
    assert failure(result).user_failure_data.metadata["error"].value == "InvalidInput"
    (release,) = bench.ledger.releases("people")
    assert release.state == "voided"
    assert bench.ledger.balance("people").epsilon_spent == 0


def test_asking_again_for_the_generator_of_a_settled_release_learns_nothing_and_is_free(done):
    bench, _ = done
    before, weights = bench.ledger.head(), bench.store / "releasable/people/generator/generator.safetensors"
    learnt = weights.read_bytes()
    job = bench.definitions().resolve_job_def("people_refresh")
    again = job.execute_in_process(
        instance=bench.instance,
        raise_on_error=False,
        asset_selection=[k for k in bench.definitions().resolve_all_asset_keys() if k.path[-1] == "generator"],
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    assert again.success
    assert (bench.ledger.head(), weights.read_bytes()) == (before, learnt)
    assert len(bench.ledger.entries()) == 4


def test_drawing_again_from_released_weights_is_free(done):
    bench, _ = done
    before = bench.ledger.head()
    keys = [k for k in bench.definitions().resolve_all_asset_keys() if k.path[-1] in ("synthetic", "published")]
    job = bench.definitions(rows=1000).resolve_job_def("people_refresh")
    again = job.execute_in_process(
        instance=bench.instance,
        asset_selection=keys,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    assert again.success
    assert bench.ledger.head() == before
    with duckdb.connect(str(bench.folder / "warehouse.duckdb"), read_only=True) as con:
        assert con.sql("SELECT count(*) FROM synthetic.people").fetchall() == [(1000,)]


def test_a_failing_blocking_check_keeps_the_old_table(bench, monkeypatch):
    refreshed(bench)
    from dp_synth_pipeline.tabular.encoding import codec

    honest = codec.TableCodec.decode

    def out_of_domain(self, codes, *, first_row=0):
        batch = honest(self, codes, first_row=first_row)
        index = batch.schema.get_field_index("city")
        import pyarrow as pa

        return batch.set_column(index, batch.schema.field(index), pa.array(["Atlantis"] * batch.num_rows))

    with duckdb.connect(str(bench.folder / "warehouse.duckdb"), read_only=True) as con:
        before = con.sql("SELECT * FROM synthetic.people").df()
    monkeypatch.setattr(codec.TableCodec, "decode", out_of_domain)
    result = bench.refresh()
    assert not result.success
    assert "published" not in steps(result, "STEP_SUCCESS")
    with duckdb.connect(str(bench.folder / "warehouse.duckdb"), read_only=True) as con:
        pd.testing.assert_frame_equal(con.sql("SELECT * FROM synthetic.people").df(), before)


ENDS = {
    "age": {"lower": 18, "upper": 80},
    "income": {"lower": 0, "upper": 100},
    "seen": {"lower": dt.date(2024, 1, 1), "upper": dt.date(2024, 12, 31)},
    "score": {"lower": 0, "upper": 9},
}
"""Declared, so that noise hides no column's values by chance: what it hides comes out null."""


@pytest.mark.parametrize("policy", ["mean", "drop"])
def test_null_policies_leave_no_null(bench, policy):
    result = bench.refresh(nulls=policy, columns={"person": {"kind": "excluded"}, **ENDS})
    assert result.success, failure(result)
    drawn = pq.read_table(bench.store / "releasable/people/synthetic.parquet")
    assert sum(column.null_count for column in drawn.columns) == 0


def test_a_privacy_unit_of_several_rows_is_bounded_charged_and_renumbered(bench):
    bench.ledger.open_account("persons", epsilon=10.0, delta=1e-4, unit="person", max_rows=2)
    result = bench.refresh(account="persons", unit={"column": "person", "max_rows": 2}, columns={})
    assert result.success, failure(result)
    drawn = pq.read_table(bench.store / "releasable/people/synthetic.parquet")
    assert drawn.column("person").to_pylist() == list(range(1, drawn.num_rows + 1))
    charged = next(e for e in bench.ledger.entries(account="persons") if e.mechanism == "profile").events[0]
    drawn_noise = next(
        e.materialization.metadata["noise_per_cell"].value
        for e in result.all_events
        if e.is_step_materialization and e.asset_key is not None and e.asset_key.path[-1] == "profile"
    )
    assert drawn_noise == pytest.approx(2 * charged.noise_multiplier, rel=0.005), "two rows a person move a cell by two"


def test_an_account_of_another_unit_is_not_charged(bench):
    result = bench.refresh(unit={"column": "person", "max_rows": 2}, columns={})
    assert failure(result).user_failure_data.metadata["error"].value == "AccountMismatch"


def test_a_pipeline_never_opens_an_account(bench):
    result = bench.refresh(account="nobody")
    assert failure(result).user_failure_data.metadata["error"].value == "UnknownAccount"
    assert [a.name for a in bench.ledger.accounts()] == ["people"]


def test_an_unexpected_error_is_reported_without_its_message(bench, monkeypatch):
    from dp_synth_pipeline.tabular.profiling import measure

    def broken(*args, **kwargs):
        raise RuntimeError("SECRET-CELL")

    monkeypatch.setattr(measure, "measure", broken)
    result = bench.refresh()
    events = json.dumps([str(e) for e in result.all_events])
    assert "SECRET-CELL" not in events
    assert "RuntimeError" in failure(result).user_failure_data.description


def test_nothing_private_reaches_the_event_log_or_the_releasable_store(bench):
    frame = pd.read_parquet(bench.folder / "people.parquet")
    frame.loc[0, "city"] = "CANARY-CITY"
    frame.loc[0, "income"] = 98765.43
    frame.to_parquet(bench.folder / "people.parquet")
    result = bench.refresh()
    assert result.success, failure(result)
    said = json.dumps([repr(e) for e in result.all_events])
    for path in (bench.store / "releasable").rglob("*"):
        if path.is_file():
            said += path.read_bytes().decode("latin-1")
    for secret in ("CANARY-CITY", "98765.43", str(bench.ledger.releases()[0].id and "no-such")):
        assert secret not in said
    assert f'"units": {len(frame)}' not in said


def test_two_runs_of_one_table_do_not_mix_their_handles(bench):
    from dp_synth_pipeline.synthesis.run_state import RunState

    first, second = bench.refresh(epsilon=1.0), bench.refresh(epsilon=1.0)
    handles = bench.store / "restricted" / "people" / "handles"
    releases = {
        run.run_id: RunState.from_dict(json.loads((handles / run.run_id / "generator.json").read_text())).release
        for run in (first, second)
    }
    assert releases == {r.run_id: r.id for r in bench.ledger.releases("people")}
    assert (handles / first.run_id / "ingested.json").stat().st_mode & 0o077 == 0


def test_a_failed_refresh_does_not_spoil_drawing_from_the_generator_before_it(bench, monkeypatch):
    refreshed(bench)
    before = (bench.store / "releasable/people/generator/profile.json").read_bytes()
    from dp_synth_pipeline.tabular.encoding import nulls

    def broken(*args, **kwargs):
        raise RuntimeError("half-way")

    with monkeypatch.context() as patch:
        patch.setattr(nulls, "complete", broken)
        assert "completed" in steps(bench.refresh(reuse_profile=False), "STEP_FAILURE")
    assert (bench.store / "releasable/people/profile.json").read_bytes() != before
    handle = json.loads((bench.store / "restricted/people/generator.json").read_text())
    assert Path(handle["files"]["profile"]).read_bytes() == before
    keys = [k for k in bench.definitions().resolve_all_asset_keys() if k.path[-1] in ("synthetic", "published")]
    again = (
        bench.definitions()
        .resolve_job_def("people_refresh")
        .execute_in_process(
            instance=bench.instance,
            asset_selection=keys,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
    )
    assert again.success


def test_a_ledger_that_fails_while_the_source_is_noted_is_not_told_as_a_source_that_cannot_be_read(bench, monkeypatch):

    def broken(*args, **kwargs):
        raise LedgerCorrupted("the ledger's file is damaged")

    monkeypatch.setattr(Ledger, "note_source", broken)
    told = failure(bench.refresh()).user_failure_data
    assert told.metadata["error"].value == "LedgerCorrupted"
    assert [r.state for r in bench.ledger.releases("people")] == ["reserved"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("SECRET")])
def test_an_ingestion_that_breaks_for_any_reason_ends_in_one_sentence_and_keeps_its_reservation(
    bench, monkeypatch, error
):
    from dp_synth_pipeline.tabular.sources import ingestion

    def broken(*args, **kwargs):
        raise error

    bench.ledger.open_account("persons", epsilon=10.0, delta=1e-4, unit="person", max_rows=2, why="test")
    monkeypatch.setattr(ingestion, "bound_rows", broken)
    result = bench.refresh(account="persons", unit={"column": "person", "max_rows": 2}, columns={})
    told = failure(result).user_failure_data
    assert told.metadata["exit_code"].value == 2
    assert "could not be read to its end" in told.description
    assert str(error) not in told.description
    details = next((bench.store / "restricted/people").rglob("reading-failed.txt")).read_text()
    assert ("the disk is full" if isinstance(error, OSError) else "SECRET") in details
    assert [r.state for r in bench.ledger.releases("persons")] == ["reserved"]
    assert not list((bench.store / "restricted/people").rglob("*.parquet"))

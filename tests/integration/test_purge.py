"""What holds real rows: who may read it while it is there, and that it goes when a person said."""

from __future__ import annotations

import os
import stat

import pytest

from tests.integration.conftest import failure, steps
from tests.integration.test_command_line import GOOD, write


def private_files(bench) -> list[str]:
    """Names of the snapshots and what was made of them."""
    root = bench.store / "restricted"
    found = (f for f in root.rglob("*") if f.is_file() and f.suffix != ".json" and f.name != "expires")
    return sorted(f.name for f in found)


@pytest.fixture(params=[0o000, 0o022], ids=["umask 000", "umask 022"])
def mask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_what_is_restricted_is_its_owners_only_whatever_the_umask(bench, mask, monkeypatch):
    from dp_synth_pipeline.tabular.sources import ingestion

    spilled = []
    honest = ingestion._connection

    def watched(folder):
        with honest(folder) as con:
            yield con
            con.execute("SET memory_limit = '30MB'")
            con.execute("SET threads = 1")
            con.execute(
                "CREATE TEMP TABLE wide AS SELECT range AS i, repeat('x', 40) || range AS t FROM range(1000000)"
            )
            spilled.extend((f, f.stat().st_mode) for f in (folder / "spill", *(folder / "spill").rglob("*")))

    from contextlib import contextmanager

    monkeypatch.setattr(ingestion, "_connection", contextmanager(watched))
    result = bench.refresh(unit={"column": "person", "max_rows": 2}, columns={}, account=persons(bench))
    assert result.success or "checks" in steps(result, "STEP_FAILURE"), failure(result)
    inside = list((bench.store / "restricted").rglob("*"))
    assert {"snapshot.parquet", "completed.parquet", "codes.npy", "units.npy", "profile.json", "ingested.json"} <= {
        f.name for f in inside
    }
    assert len(spilled) >= 2  # the folder, and something in it
    modes = [(f, f.stat().st_mode) for f in inside] + spilled
    loose = [f.name for f, mode in modes if mode & 0o077]
    assert loose == []
    assert all(mode & 0o700 == 0o700 for _, mode in modes if stat.S_ISDIR(mode))
    public = bench.store / "releasable/people/synthetic.parquet"
    assert public.stat().st_mode & 0o777 == 0o644


def persons(bench) -> str:
    bench.ledger.open_account("persons", epsilon=10.0, delta=1e-4, unit="person", max_rows=2, why="test")
    return "persons"


def test_retention_of_no_days_leaves_no_row_after_the_run_but_the_owners_report(bench):
    result = bench.refresh(retention_days=0, epsilon=2.0)
    assert result.success, failure(result)
    assert private_files(bench) == ["quality_report.headline", "quality_report.html"]


def test_by_default_the_snapshot_stays_until_the_next_refresh(bench):
    assert bench.refresh(epsilon=2.0).success
    first = bench.ledger.releases("people")[0].id
    assert (bench.store / "restricted/people" / first / "snapshot.parquet").exists()
    assert bench.refresh(epsilon=2.0).success
    assert not (bench.store / "restricted/people" / first).exists()


def test_a_source_that_could_not_be_read_leaves_no_rows_behind_but_the_reason_for_its_owner(bench, monkeypatch):
    from dp_synth_pipeline.tabular.sources import ingestion

    def broken(*args, **kwargs):
        raise RuntimeError("half-way")

    monkeypatch.setattr(ingestion, "_bounded", broken)
    assert not bench.refresh(retention_days=7).success
    left = {f.name: f for f in (bench.store / "restricted").rglob("*") if f.is_file()}
    assert left.keys() == {"reading-failed.txt", "expires"}
    assert all(f.stat().st_mode & 0o077 == 0 for f in left.values())


def test_a_report_after_the_snapshot_went_says_what_to_do(bench):
    assert bench.refresh(epsilon=2.0, retention_days=0).success
    definitions = bench.definitions(epsilon=2.0)
    keys = [k for k in definitions.resolve_all_asset_keys() if k.path[-1] == "quality_report"]
    again = definitions.resolve_job_def("people_refresh").execute_in_process(
        instance=bench.instance, asset_selection=keys, raise_on_error=False
    )
    assert "the snapshot of people was deleted" in failure(again).user_failure_data.description


def test_a_person_purges_what_ended_and_all_else_only_on_purpose(shell):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 4, "--open-account", "--purpose", "testing")
    assert done.code == 0, done.err
    root = shell.folder / "home/store/restricted/t"
    shell("ledger", "open", "other", "--epsilon", 6)
    facts = {"table": "t", "run_id": "r", "code_version": "c"}
    running = shell.ledger().reserve("other", key="k", epsilon=2.0, delta=1e-5, own_delta=1e-8, **facts)
    (root / running.id).mkdir()
    (root / running.id / "snapshot.parquet").write_text("rows")

    would = shell("purge", "--dry-run")
    assert (would.code, "would delete t/" in would.text) == (0, True)
    assert (root / "quality_report.html").exists()
    assert "Nothing to delete" in shell("purge", "--older-than", "7d").text
    gone = shell("purge", "t")
    assert gone.code == 0
    for name in ("snapshot.parquet", "completed.parquet", "codes.npy", "quality_report.html"):
        assert name in gone.text
    assert [f.name for f in root.rglob("*.parquet")] == ["snapshot.parquet"]
    assert (shell.folder / "home/store/releasable/t/synthetic.parquet").exists()

    assert shell("purge", "--all").code == 2
    assert (root / running.id / "snapshot.parquet").exists()
    assert shell("purge", "--all", "--yes").code == 0
    assert not list(root.rglob("*.parquet"))
    assert shell("purge", "nobody").code == 2
    assert shell("purge", "--older-than", "soon").code == 2
    assert shell("ledger", "verify").code == 0


def test_drawing_again_works_after_a_purge(bench):
    from dp_synth_pipeline.synthesis import retention
    from dp_synth_pipeline.synthesis.store import Store

    assert bench.refresh(epsilon=2.0).success
    retention.purge(Store(bench.store), bench.ledger)
    assert private_files(bench) == []
    definitions = bench.definitions(rows=50, epsilon=2.0)
    keys = [k for k in definitions.resolve_all_asset_keys() if k.path[-1] in ("synthetic", "published", "release_card")]
    again = definitions.resolve_job_def("people_refresh").execute_in_process(
        instance=bench.instance, asset_selection=keys, raise_on_error=False
    )
    assert again.success, failure(again)


@pytest.mark.parametrize(
    "command",
    [["purge"], ["schema"], ["schema", "infer"], ["schema", "show"], ["profile", "show"], ["profile", "renew"]],
)
def test_every_new_command_teaches_by_an_example(shell, command):
    done = shell(*command, "--help")
    assert done.code == 0
    assert len(command) < 2 or "Example: dp-synth" in done.text

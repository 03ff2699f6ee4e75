"""The command line as a person meets it: what works, what each mistake says, and that mistakes cost nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import duckdb
import pandas as pd
import pytest
from dagster._core.executor.in_process import InProcessExecutor

import dp_synth_pipeline as dps
from dp_synth_pipeline.cli import tune
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import journal
from dp_synth_pipeline.model.dpsgd import descent
from dp_synth_pipeline.model.marginals import measuring
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.reporting import table_checks
from dp_synth_pipeline.synthesis import sampling, stages
from dp_synth_pipeline.tabular.profiling import measure
from tests.integration.conftest import interrupt, people

ROW = "30,a,0.5"
GOOD = [f"{20 + i % 50},{'abc'[i % 3]},{(i * 37 % 100) / 100:.2f}" for i in range(300)]


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


SOURCES = {
    "no such file": (None, [], "no such file"),
    "empty file": ("t.csv", [], "holds no header"),
    "duplicate names": ("t.csv", ["age,g,age", *GOOD], "duplicate column name 'age'"),
    "not Parquet": ("t.parquet", ["CANARY" * 99], "damaged"),
    "unknown kind": ("t.xlsx", ["CANARY"], "unknown kind of source"),
}


@pytest.mark.parametrize("case", SOURCES)
def test_a_source_that_cannot_be_used_says_so_exits_2_and_costs_nothing(shell, case):
    name, lines, told = SOURCES[case]
    path = shell.folder / (name or "t.csv")
    if name:
        path.write_text("\n".join(lines) + ("\n" if lines else ""))
    done = shell("synthesize", path, "--out", "o.parquet", "--epsilon", 1, "--account", "t", "--open-account")
    assert done.code == 2
    assert told.lower() in done.text.lower()
    assert "Traceback" not in done.text
    assert "CANARY" not in done.text
    assert not (shell.folder / "o.parquet").exists()
    assert all(shell.ledger().balance(a.name).epsilon_spent == 0 for a in shell.ledger().accounts())


ODD_ROWS = {
    "distinct text": ["age,g,x,t", *(f"{r},CANARY{i}" for i, r in enumerate(GOOD))],
    "infinite": ["age,g,x", *GOOD, "30,a,inf"],
    "mixed types": ["age,g,x", *GOOD, "CANARY,a,0.5"],
    "too many fields": ["age,g,x", *GOOD[:99], "30,a,0.5,CANARY,9", *GOOD[99:]],
    "too few fields": ["age,g,x", *GOOD[:99], "CANARY", *GOOD[99:]],
}


@pytest.mark.parametrize("case", ODD_ROWS)
def test_rows_that_are_odd_are_no_reason_to_refuse_a_table(shell, case):
    """Whether there is such a row is a fact about somebody."""
    write(shell.folder / "t.csv", *ODD_ROWS[case])
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 3, "--open-account", "--purpose", "testing")
    assert done.code == 0, done.text
    assert "CANARY" not in done.text
    assert "CANARY" not in pd.read_parquet(shell.folder / "o.parquet").to_csv()


def test_a_quote_that_does_not_close_ends_the_release_in_one_sentence_and_keeps_its_reservation(shell):
    write(shell.folder / "t.csv", "age,g,x", *GOOD[:99], '30,"CANARY,0.5', *GOOD[99:])
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 1, "--open-account")
    assert (done.code, "could not be read to its end" in done.text) == (2, True)
    assert "CANARY" not in done.text
    assert [r.state for r in shell.ledger().releases()] == ["reserved"]
    assert "and --resume" not in done.text, "there is nothing to go on from"
    assert "run again without --resume" in done.text
    (end,) = re.findall(r"dp-synth (ledger void \S+) --why REASON", done.text)
    assert shell(*end.split(), "--why", "the file was mended").code == 0
    assert [r.state for r in shell.ledger().releases()] == ["voided"]


def test_a_table_of_which_no_row_has_a_unit_is_told_so_by_the_noisy_count(shell):
    frame = people(300).assign(person=pd.Series([None] * 300, dtype="string"))
    frame.to_parquet(shell.folder / "t.parquet")
    unit = ("--unit", "person", "--max-rows", 2)
    done = shell("synthesize", "t.parquet", "--out", "o.parquet", "--epsilon", 90, "--open-account", *unit)
    assert done.code == 2, done.text
    assert "noisy number of" in done.text
    assert "A row whose 'person' is null belongs to no privacy unit" in done.text


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf"])
def test_an_epsilon_that_protects_nobody_is_refused(shell, epsilon):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    done = shell("synthesize", "t.csv", "--out", "o.parquet", f"--epsilon={epsilon}", "--open-account")
    assert (done.code, "Epsilon must be a finite number above 0" in done.text) == (2, True)


def test_a_delta_that_would_publish_somebody_is_refused_by_the_noisy_count_which_stays_charged(shell):
    rows = GOOD * 10  # of 300, one noisy count in 110 is below the hundred that this delta needs
    write(shell.folder / "t.csv", "age,g,x", *rows)
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 1, "--delta", "0.01", "--open-account")
    assert (done.code, "not below one over the noisy number" in done.text) == (2, True)
    assert [e.mechanism for e in shell.ledger().entries()] == ["row count"]


@pytest.mark.parametrize("delta", ["0", "1"])
def test_a_delta_that_is_none_is_refused_before_anything_is_spent(shell, delta):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 1, "--delta", delta, "--open-account")
    assert (done.code, "Delta must lie" in done.text) == (2, True)
    assert all(shell.ledger().balance(a.name).epsilon_spent == 0 for a in shell.ledger().accounts())


def test_settings_are_compared_on_released_rows_and_nothing_of_the_user_is_touched(shell, monkeypatch):
    book = shell.ledger()
    book.open_account("people", epsilon=6, delta=1e-5)
    quick = {"method": "marginals", "hidden": 8}
    columns = {name: {"kind": "excluded"} for name in ("person", "income", "seen", "score")}
    how = {"training": quick, "show": False, "columns": columns}
    dps.Synthesizer("people", 2, book, **how).fit(people(300)).save(shell.folder / "people.dps")
    before = book.head(), sorted(p.name for p in (shell.folder / "home").rglob("*"))
    monkeypatch.setattr(tune, "grid", lambda asked: [quick])  # the defaults take long
    done = shell("tune", "--on-released", "people.dps", "--try", "training.max_epochs=1", "--rows", 900, "--epsilon", 2)
    assert done.code == 0, done.text
    assert "Free: 900 rows are drawn from release" in done.text
    assert "1 of 1: method=marginals, hidden=8" in done.text
    assert "diverged" not in done.text
    assert done.out == "", "there is nothing that it beats"
    assert (book.head(), sorted(p.name for p in (shell.folder / "home").rglob("*"))) == before
    assert "no saved model" in shell("tune", "--on-released", "nobody", "--try", "training.rake=true").text


def test_a_setting_of_a_wrong_key_is_answered_with_the_right_one(shell):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    refused = shell("synthesize", "t.csv", "--out", "o.csv", "--epsilon", 3, "--set", "training.epochs=1")
    assert refused.code == 2
    assert "--set training.epochs: there is no such setting. Did you mean max_epochs?" in refused.text


def test_an_account_that_does_not_exist_is_named_with_the_command_that_opens_it(shell):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 1)
    assert done.code == 2
    assert "dp-synth ledger open t --epsilon E" in done.text


def test_an_account_of_another_unit_is_refused(shell):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    shell("ledger", "open", "t", "--epsilon", 3, "--unit", "g")
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 1)
    assert done.code == 2
    assert "protects unit='g', got unit='row'" in done.text
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 1, "--unit", "x", "--max-rows", 2)
    assert "open an account for that unit (dp-synth ledger open NAME --unit x --max-rows 2)" in done.text


def test_a_mistyped_account_is_answered_with_the_one_that_may_be_meant(shell):
    shell("ledger", "open", "visits", "--epsilon", 3)
    assert "has: visits. Did you mean visits?" in shell("ledger", "show", "vists").text


@pytest.mark.parametrize("out", ["/proc/nowhere/o.parquet", "o.txt"])
def test_a_place_that_cannot_be_written_is_noticed_before_anything_is_spent(shell, out):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    done = shell("synthesize", "t.csv", "--out", out, "--epsilon", 1, "--open-account")
    assert done.code == 2
    assert shell.ledger().accounts() == []


def test_a_full_disk_is_noticed_before_anything_is_spent_and_the_old_output_stays(shell, monkeypatch):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    (shell.folder / "o.parquet").write_text("old")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    done = shell("synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 1, "--open-account")
    assert (done.code, "the disk is full" in done.text.lower()) == (2, True)
    assert (shell.folder / "o.parquet").read_text() == "old"
    assert shell.ledger().accounts() == []


def test_one_release_and_then_a_refusal_with_exit_code_3(shell):
    with duckdb.connect(str(shell.folder / "d.duckdb")) as con:
        frame = people(900)
        con.execute("CREATE TABLE t AS SELECT * FROM frame")
        assert len(frame) == 900
    args = (
        "synthesize",
        "duckdb:///d.duckdb?table=main.t",
        "--out",
        "o.csv",
        "--epsilon",
        2,
        "--account",
        "t",
        "--json",
    )
    brief = ("--set", "training.max_epochs=1", "--set", "training.batch_share=0.25")
    done = shell(*args, "--open-account", "--rows", 50, "--unit", "person", *brief)
    assert done.code == 0, done.err
    (trained,) = next(e.events for e in shell.ledger().entries() if e.mechanism == "training")
    assert trained.steps <= 6, "one pass by a quarter of the units, to the nearest power of two"
    facts = json.loads(done.out)
    assert (facts["rows"], facts["columns"]) == (50, 7)
    assert 0 < facts["epsilon"] <= 2
    assert [e["mechanism"] for e in facts["entries"]] == ["row count", "profile", "marginals", "training"]
    assert set(facts["seconds"]) >= {"ingested", "profile", "generator", "synthetic", "checks", "published"}
    assert len(pd.read_csv(shell.folder / "o.csv")) == 50

    before = shell.ledger().head(), (shell.folder / "o.csv").read_bytes()
    again = shell(*args, "--unit", "person")
    assert again.code == 3
    assert "refuses this release" in again.text
    assert "Nothing was read and nothing was changed" in again.text
    assert again.out == ""
    assert (shell.ledger().head(), (shell.folder / "o.csv").read_bytes()) == before

    shown = shell("ledger", "show", "t")
    assert "settled" in shown.text
    assert shell("ledger", "verify").code == 0


def test_a_damaged_ledger_exits_4(shell):
    shell("ledger", "open", "t", "--epsilon", 3)
    import sqlite3

    with sqlite3.connect(shell.folder / "home" / "ledger.db") as con:
        con.execute("UPDATE dp_account SET epsilon = 300")
    done = shell("ledger", "verify")
    assert (done.code, "Traceback" in done.text) == (4, False)


def test_an_emptied_ledger_exits_4_whatever_is_asked_of_it(shell):
    shell("ledger", "open", "t", "--epsilon", 3)
    path = shell.folder / "home" / "ledger.db"
    path.write_bytes(b"")
    for command in (
        ["ledger", "show"],
        ["ledger", "open", "u", "--epsilon", 1],
        ["governance", "report", "--out", "g.html"],
    ):
        done = shell(*command)
        assert (done.code, str(path) in done.text, "Traceback" in done.text) == (4, True, False), done.text


def test_a_restored_ledger_stops_whatever_spends_until_a_person_adopts_it(shell):
    shell("ledger", "open", "t", "--epsilon", 3, "--rule", "plan")
    path = shell.folder / "home" / "ledger.db"
    backup = path.read_bytes()
    shell("ledger", "raise", "t", "--epsilon", 4, "--why", "more")
    path.write_bytes(backup)
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    for command in (
        ["schema", "infer", "t.csv", "--account", "t", "--epsilon", 1, "--out", "s.yaml"],
        ["synthesize", "t.csv", "--out", "o.parquet", "--epsilon", 1],
        ["ledger", "open", "u", "--epsilon", 1],
    ):
        done = shell(*command)
        assert (done.code, "dp-synth ledger adopt --why" in done.text) == (4, True), done.text
    assert shell("ledger", "adopt", "--why", "the disk died", "--who", "Ada").code == 0
    assert shell("ledger", "open", "u", "--epsilon", 1).code == 0
    assert "adopted" in shell("ledger", "history").text


def test_a_name_with_brackets_is_printed_as_it_is(shell):
    for name in ("[/x]", "[red]x[/]"):
        done = shell("ledger", "open", name, "--epsilon", 1)
        assert (done.code, f"got {name!r}" in done.text) == (2, True), done.text
    done = shell("synthesize", "nosuch[/].csv", "--out", "o.csv", "--epsilon", 1)
    assert (done.code, "nosuch[/].csv" in done.text) == (2, True), done.text
    assert shell("ledger", "open", "t", "--epsilon", 1, "--unit", "pulse [/min]").code == 0
    assert "pulse [/min]" in shell("ledger", "show", "t").text


def test_whoever_opens_or_shows_an_account_is_told_where_its_ledger_lies(shell):
    path = str(shell.folder / "home" / "ledger.db")
    assert path in shell("ledger", "show").text
    assert path in shell("ledger", "open", "t", "--epsilon", 1).text
    assert path in shell("ledger", "show").text
    assert path in shell("ledger", "show", "nobody").text


def test_a_failure_without_words_of_ours_is_withheld_and_is_no_traceback(shell, monkeypatch):
    shell("ledger", "open", "t", "--epsilon", 3)
    monkeypatch.setattr("dp_synth_pipeline.cli.answers.show", lambda *_: {}["CANARY"])
    done = shell("ledger", "show")
    assert (done.code, "CANARY" in done.text, "Traceback" in done.text) == (1, False, False)
    assert "unexpected KeyError" in done.text


def test_bad_input_does_not_fix_the_terms_of_an_account_that_was_opened_for_it(shell):
    write(shell.folder / "t.csv", "age,g,age", *GOOD)
    bad = ["synthesize", "t.csv", "--out", "o.parquet", "--open-account", "--epsilon"]
    assert shell(*bad, 1).code == 2
    assert shell.ledger().account("t").epsilon == 1
    assert shell(*bad, 2).code == 2
    assert shell.ledger().account("t").epsilon == 2
    assert shell("ledger", "verify").code == 0
    shell("ledger", "open", "u", "--epsilon", 1, "--why", "a person's")
    assert shell(*bad[:4], "--account", "u", *bad[4:], 2).code in (2, 3)
    assert shell.ledger().account("u").epsilon == 1


def test_a_training_without_a_mark_is_settled_for_nothing_by_the_command_that_show_names(shell):
    from dp_synth_pipeline.privacy.events import SubsampledGaussian

    shell("ledger", "open", "t", "--epsilon", 6)
    facts = {"table": "t", "run_id": "r", "code_version": "c"}
    release = shell.ledger().reserve("t", key="k", epsilon=2.0, delta=1e-5, own_delta=1e-8, **facts)
    entry = shell.ledger().start(release.id, "training", [SubsampledGaussian(8.0, 0.01, 100)])
    assert f"dp-synth ledger settle {entry.id} --at-mark" in shell("ledger", "show", "t").text
    done = shell("ledger", "settle", entry.id, "--at-mark", "--why", "the machine died")
    assert (done.code, "0 steps charged, epsilon 0" in done.text) == (0, True), done.text
    assert shell.ledger().balance("t").cost_spent == 0
    assert shell("ledger", "verify").code == 0


@pytest.mark.parametrize("command", [[], ["synthesize"], ["ledger"], ["ledger", "open"], ["demo"]])
def test_help_teaches(shell, command):
    done = shell(*command, "--help")
    assert done.code == 0
    assert len(done.text) > 150


def test_a_person_opens_asks_forecasts_raises_and_plans(shell):
    assert shell("ledger", "open", "t", "--epsilon", 6, "--why", "test").code == 0
    assert "would be admitted now" in shell("ledger", "can", "t", "--epsilon", 1).text
    assert shell("ledger", "can", "t", "--epsilon", 60).code == 3
    told = shell("ledger", "forecast", "t", "--every", "0 3 * * 1", "--epsilon", 1).text
    assert "the account is exhausted on" in told
    assert shell("ledger", "raise", "t", "--epsilon", 5, "--why", "less").code == 2
    assert shell("ledger", "raise", "t", "--epsilon", 9, "--why", "more").code == 0
    step = "subsampled_gaussian:noise_multiplier=4,sample_rate=0.01,steps=100"
    assert "together epsilon" in shell("ledger", "plan", "t", "--times", 3, "--why", "x", "--event", step).text
    assert shell("ledger", "plan", "t", "--times", 3, "--why", "x", "--event", "nonsense").code == 2
    tagged = ("--name", "tagged", "--times", 1, "--why", "x", "--event", f"{step},mechanism=training")
    assert shell("ledger", "plan", "t", *tagged, "--event", step).code == 2, "a mechanism beside some events only"
    assert shell("ledger", "plan", "t", *tagged).code == 0
    assert '"mechanisms":["training"]' in "".join(shell("ledger", "export", "t").text.split())
    history = shell("ledger", "history", "t").text
    assert all(word in history for word in ("opened", "raised", "planned", journal.who()))
    assert shell("ledger", "open", "t", "--epsilon", 6).code == 2


def test_a_forecast_reads_the_schedules_of_the_project_or_of_the_demo_where_it_ran(shell):
    shell("ledger", "open", "rand_hie", "--epsilon", 12)
    assert "table of this project has a schedule for that account" in shell("ledger", "forecast", "rand_hie").text
    (shell.folder / "home/store/releasable/rand_hie").mkdir(parents=True)
    told = shell("ledger", "forecast", "rand_hie").text
    assert "refreshes of epsilon 3 in 365 days" in told
    assert "would fit at epsilon" in told


@pytest.mark.parametrize("format", ["json", "csv", "html"])
def test_a_statement_is_exported(shell, format):
    shell("ledger", "open", "t", "--epsilon", 6, "--why", "test")
    assert shell("ledger", "export", "t", "--format", format, "--out", f"s.{format}").code == 0
    assert len((shell.folder / f"s.{format}").read_text()) > 100
    assert shell("ledger", "export", "t", "--format", "pdf").code == 2


def test_a_release_that_died_before_its_training_is_settled_by_its_id(shell):
    from dp_synth_pipeline.privacy.events import DiscreteGaussian

    shell("ledger", "open", "t", "--epsilon", 6)
    facts = {"table": "t", "run_id": "r", "code_version": "c"}
    release = shell.ledger().reserve("t", key="k", epsilon=2.0, delta=1e-5, own_delta=1e-8, **facts)
    shell.ledger().start(release.id, "profile", [DiscreteGaussian(20.0, 1, 9)])
    assert f"dp-synth ledger settle {release.id}" in shell("ledger", "show", "t").text
    assert shell("ledger", "settle", release.id, "--why", "the machine died", "--who", "Ada").code == 0
    assert shell.ledger().release(release.id).state == "settled"
    assert shell.ledger().history("t")[-1].facts["note"] == {"why": "the machine died", "who": "Ada"}
    assert f"Settled {release.id[:12]}: the machine died." in shell("ledger", "show", "t").text
    assert shell("ledger", "verify").code == 0
    assert 0 < shell.ledger().balance("t").cost_spent < release.reserved_cost
    assert shell("ledger", "settle", "nothing", "--why", "x").code == 2


def test_a_plan_like_a_release_of_an_earlier_version_declares_the_noise_that_is_drawn_today(shell):
    from dp_synth_pipeline.privacy.events import DiscreteGaussian, Gaussian, SubsampledGaussian

    shell("ledger", "open", "t", "--epsilon", 6)
    facts = {"table": "t", "run_id": "r", "code_version": "c"}
    release = shell.ledger().reserve("t", key="k", epsilon=2.0, delta=1e-5, own_delta=1e-8, **facts)
    shell.ledger().start(release.id, "profile", [DiscreteGaussian(60.0, 3, 9)])
    shell.ledger().start(release.id, "training", [SubsampledGaussian(6.0, 0.01, 50)])
    assert shell("ledger", "plan", "t", "--times", 2, "--like", release.id, "--why", "weekly").code == 0
    (plan,) = shell.ledger().plans("t")
    assert plan.events == (Gaussian(20.0, 9), SubsampledGaussian(6.0, 0.01, 50))
    assert plan.mechanisms == ("profile", "training")


@pytest.mark.parametrize("own", [True, False])
def test_steps_start_no_process_that_copies_what_they_print(tmp_path, monkeypatch, own):
    """Each such process, two for every step, would print a traceback on Ctrl-C."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    if own:
        write(tmp_path / "dagster.yaml", "telemetry: {enabled: true}", "nux: {enabled: false}")
    with in_process.instance() as made:
        assert type(made.compute_log_manager).__name__ == "NoOpComputeLogManager"
        assert made.telemetry_enabled is own
        assert made.nux_enabled is not own


def at_step_60(_, number):
    return number == 60


def test_an_interrupted_release_says_what_stays_charged_and_the_command_it_names_ends_it(shell, monkeypatch):
    interrupt(monkeypatch, descent.Descent, "_step", at_step_60)
    people(2000).drop(columns="person").to_parquet(shell.folder / "t.parquet")
    asked = ("synthesize", "t.parquet", "--out", "o.parquet", "--epsilon", 2, "--open-account")
    done = shell(*asked, "--purpose", "machine_learning")
    assert done.code == 130
    assert "Not released: interrupted. Release" in done.text
    (end,) = re.findall(r"dp-synth (ledger settle \S+ --at-mark) --why REASON", done.text)
    ended = shell(*end.split(), "--why", "I pressed Ctrl-C")
    assert ended.code == 0, ended.text
    (release,) = shell.ledger().releases()
    assert (release.state, release.final_epsilon) == ("settled", 2), "a share that outputs were seen of is spent"


def test_an_interrupted_release_goes_on_by_the_same_command_with_resume(shell, monkeypatch):
    people(2000).drop(columns="person").to_parquet(shell.folder / "t.parquet")
    asked = ("synthesize", "t.parquet", "--out", "o.parquet", "--epsilon", 2, "--open-account")
    asked += ("--purpose", "machine_learning")
    none = shell(*asked, "--resume")
    assert none.code == 2
    assert "no release of table t to go on with. Run without --resume" in none.text
    assert shell.ledger().accounts() == [], "nothing is opened for a release that began elsewhere"
    with monkeypatch.context() as patched:
        interrupt(patched, descent.Descent, "_step", at_step_60)
        assert shell(*asked).code == 130
    assert not (shell.folder / "o.parquet").exists()
    assert shell(*asked).code == 3, "the account was opened for one release"
    (shell.folder / "t.parquet").unlink()
    people(3).to_parquet(shell.folder / "t.parquet")  # the snapshot is gone on with, not the file
    resumed = shell(*asked, "--resume", "--json")
    assert resumed.code == 0, resumed.text
    (release,) = shell.ledger().releases()
    assert release.state == "settled"
    assert json.loads(resumed.out)["epsilon"] == release.final_epsilon <= 2
    names = [e.mechanism for e in shell.ledger().entries() if e.mechanism.startswith("training")]
    assert names == ["training", "training, resumed at 100"]
    assert len(pd.read_parquet(shell.folder / "o.parquet")) > 1500
    assert shell(*asked, "--resume").code == 2


def test_an_interruption_before_the_first_step_is_one_and_charges_nothing(shell, monkeypatch):
    people(600).drop(columns="person").to_parquet(shell.folder / "t.parquet")
    asked = ("synthesize", "t.parquet", "--out", "o.parquet", "--epsilon", 2, "--open-account", "--purpose", "testing")
    with monkeypatch.context() as patched:
        interrupt(patched, InProcessExecutor, "execute")
        done = shell(*asked)
    assert (done.code, done.text.count("Not released: interrupted.")) == (130, 1), done.text
    assert shell.ledger().releases() == []
    assert shell(*asked).code == 0


def test_a_row_as_unit_beside_a_column_that_names_people_is_told_before_anything_is_charged(shell, monkeypatch):
    def stopped(*_):
        raise InvalidInput("far enough")

    monkeypatch.setattr(stages, "measure_profile", stopped)
    (shell.folder / "visits.csv").write_text("patient_id,age\n1,30\n2,40\n")
    assert shell("ledger", "open", "visits", "--epsilon", 9).code == 0
    asked = ("synthesize", "visits.csv", "--out", "s.csv", "--epsilon", 1)
    told = shell(*asked)
    assert "Warning: The privacy unit is a row, so rows of one patient_id are protected one by one." in told.text
    assert "--unit patient_id" in told.text
    assert "far enough" in told.text
    assert not shell.ledger().entries("visits")
    assert "Warning" not in shell(*asked, "--unit", "row").text


def test_ctrl_c_ends_the_demo_before_its_next_table_is_paid_for(shell, monkeypatch):
    ran = []

    def refresh(definitions, table, report):
        ran.append(table)
        return in_process.Outcome("", in_process.STOPPED, "interrupted.")

    monkeypatch.setattr(in_process, "refresh", refresh)
    done = shell("demo")
    assert done.code == 130
    assert ran == ["rand_hie"]
    assert "dp-synth ledger show rand_hie" in done.text


def test_ctrl_c_while_the_program_is_imported_prints_no_traceback(tmp_path):
    """A package of a name that ours imports stands before it, and is interrupted."""
    write(tmp_path / "dagster.py", "import signal", "signal.raise_signal(signal.SIGINT)")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "dp_synth_pipeline", "synthesize", "--help"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("lost", "of", "name"), [("marginals", measuring, "measure"), ("row count", measure, "measure")]
)
def test_a_release_interrupted_while_it_counts_cannot_be_gone_on_with_and_says_so(shell, monkeypatch, lost, of, name):
    people(600).drop(columns="person").to_parquet(shell.folder / "t.parquet")
    asked = ("synthesize", "t.parquet", "--out", "o.parquet", "--epsilon", 2, "--open-account", "--purpose", "testing")
    with monkeypatch.context() as patched:
        interrupt(patched, of, name)
        done = shell(*asked)
    assert done.code == 130
    for told in (done, shell(*asked, "--resume")):
        assert f"cannot be gone on with: it was interrupted while '{lost}' looked" in told.text
        assert "and --resume" not in told.text
    (end,) = re.findall(r"dp-synth (ledger settle \S+) --why REASON", done.text)
    assert shell(*end.split(), "--why", "the machine was switched off").code == 0
    (release,) = shell.ledger().releases()
    assert (release.state, release.final_epsilon) == ("settled", 2), "a share that outputs were seen of is spent"
    assert not (shell.folder / "o.parquet").exists()


@pytest.mark.parametrize("stage", ["draw", "checks"])
def test_a_release_interrupted_after_its_training_is_drawn_and_checked_at_no_charge(shell, monkeypatch, stage):
    of, name = (sampling.Drawer, "draw") if stage == "draw" else (table_checks, "validate")
    people(600).drop(columns="person").to_parquet(shell.folder / "t.parquet")
    asked = ("synthesize", "t.parquet", "--out", "o.parquet", "--epsilon", 2, "--open-account", "--purpose", "testing")
    with monkeypatch.context() as patched:
        interrupt(patched, of, name)
        done = shell(*asked)
    assert done.code == 130
    assert "is paid for, and what it learnt is kept" in done.text
    assert not (shell.folder / "o.parquet").exists()
    spent, checked = shell.ledger().balance("t").cost_spent, []
    honest = table_checks.validate
    monkeypatch.setattr(table_checks, "validate", lambda *asked, **named: checked.append(1) or honest(*asked, **named))
    resumed = shell(*asked, "--resume")
    assert resumed.code == 0, resumed.text
    assert checked == [1], "rows are never published unchecked"
    assert shell.ledger().balance("t").cost_spent == spent
    assert (shell.folder / "o.parquet").exists()

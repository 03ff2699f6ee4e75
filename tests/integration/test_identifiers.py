"""A hospital's table as people have it: one run releases it, and nobody's number or address is in what is released."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from dp_synth_pipeline.cli.summary import show, summarise
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.synthesis import profile_cache
from dp_synth_pipeline.synthesis.store import Store
from tests.integration.conftest import Bench, failure

ROWS = 2000
QUICK: dict[str, Any] = {"training": {"method": "marginals"}, "epsilon": 3.0, "columns": {}}
MADE_ANEW = {
    "patient_id": "identifier",
    "mrn": "identifier",
    "email": "email",
    "ssn": "ssn",
    "contact": "phone",
    "chart_ref": "identifier",
    "home_page": "url",
}


def hospital(rows: int = ROWS) -> pd.DataFrame:
    """Identifiers by name (four), by their cells (contact), by the profile (chart_ref), by both (home_page); and others."""
    rng, n = np.random.Generator(np.random.PCG64(3)), np.arange(rows)
    return pd.DataFrame(
        {
            "patient_id": 100_000 + rng.permutation(rows),
            "mrn": [f"MRN-{i:06d}" for i in rng.permutation(rows)],
            "email": [f"u{i}@hospital.net" for i in n],
            "ssn": 1_010_000 * (100 + n % 700) + n,
            "contact": [f"({200 + i % 700}) {300 + i % 600}-{1000 + i % 9000}" for i in n],
            "chart_ref": [f"C{i:08d}" for i in n],
            "home_page": [f"https://people.org/{i}" for i in n],
            "note": [f"was seen {i} times" for i in n],
            "ward_id": rng.integers(1, 5, rows),
            "age": rng.integers(0, 100, rows),
            "sex": rng.choice(["F", "M"], rows),
        }
    )


def refreshed(bench: Bench, rows: pd.DataFrame, kind: str = "csv", **changes: Any) -> Any:
    source = bench.folder / f"hospital.{kind}"
    rows.to_csv(source, index=False) if kind == "csv" else rows.to_parquet(source)
    return bench.refresh(source=str(source), **{**QUICK, **changes})


def lines(bench: Bench, result: Any, word: str) -> list[str]:
    records = bench.instance.all_logs(result.run_id)
    return [r.user_message for r in records if word in r.user_message]


def card(bench: Bench) -> dict[str, Any]:
    return json.loads((bench.store / "releasable" / "people" / "release_card.json").read_text())


def test_one_run_releases_a_csv_of_people_and_says_once_what_it_regenerated(bench: Bench) -> None:
    source = hospital()
    result = refreshed(bench, source, validation={"report_epsilon": 0.1})
    assert result.success
    synthetic = pd.read_parquet(bench.store / "releasable" / "people" / "synthetic.parquet")
    facts = {c["name"]: c["kind"] for c in card(bench)["public"]}
    assert {name: facts[name] for name in MADE_ANEW} == MADE_ANEW
    assert [facts[name] for name in ("ward_id", "age", "sex")] == ["integer", "integer", "category"]
    for name in ("mrn", "email", "ssn", "contact", "chart_ref", "home_page"):
        assert not set(map(str, synthetic[name])) & set(map(str, source[name])), name
        assert synthetic[name].notna().all()
    assert synthetic.patient_id.tolist() == list(range(1, len(synthetic) + 1))
    assert synthetic.note.isna().all()
    said = lines(bench, result, "never modelled")
    assert len(said) == 1
    assert all(name in said[0] for name in MADE_ANEW)
    assert len(lines(bench, result, "only nulls are drawn: note.")) == 1
    assert any("never modelled" in limit for limit in card(bench)["limits"])
    checks = {c["name"]: c for c in json.loads((bench.store / "releasable/people/checks.json").read_text())}
    assert checks["identifiers_regenerated"]["passed"]
    assert checks["identifiers_regenerated"]["observed"]["regenerated"] == len(MADE_ANEW)
    verdict_is_for_the_owner_alone(bench, result)


def verdict_is_for_the_owner_alone(bench: Bench, result: Any) -> None:
    summary = summarise(bench.ledger, Store(bench.store), "people", Outcome(result.run_id))
    terminal, log = (Console(file=io.StringIO(), force_terminal=how, width=200) for how in (True, False))
    for console in (terminal, log):
        show([summary], console)
        assert "never modelled" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "quality:" in terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "not differentially private" in terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "quality:" not in log.file.getvalue() + summary.to_json()  # type: ignore[attr-defined]
    assert not lines(bench, result, "chance allows")
    headline = bench.store / "restricted" / "people" / "quality_report.headline"
    assert headline.stat().st_mode & 0o077 == 0


def charged(bench: Bench) -> list[Any]:
    newest = bench.ledger.releases()[-1]
    return [(e.mechanism, [v.to_dict() for v in e.events]) for e in bench.ledger.entries(release_id=newest.id)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_are_recognised_by_name_are_charged_nothing(bench: Bench, kind: str) -> None:
    """The events of a release are those of the same table without these columns, to the last digit."""
    rest = hospital()[["ward_id", "age", "sex"]]
    terms = {"population": ROWS, "reuse_profile": False, "epsilon": 1.0}
    assert refreshed(bench, rest, kind, **terms).success
    without = charged(bench)
    named = hospital()[["patient_id", "mrn", "email", "ssn"]]
    assert refreshed(bench, pd.concat([named, rest], axis=1), kind, **terms).success
    assert charged(bench) == without


def test_a_warm_profile_of_the_version_before_is_reused_with_the_columns_that_it_modelled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = hospital()[["patient_id", "age", "sex"]]
    with monkeypatch.context() as before:
        before.setattr("dp_synth_pipeline.tabular.recognition.by_name", lambda *given: None)
        assert refreshed(bench, rows, epsilon=1.0).success
    folder = bench.store / "releasable" / "people"
    origin = json.loads((folder / profile_cache.FACTS).read_text())
    del origin["kinds"]
    (folder / profile_cache.FACTS).write_text(json.dumps(origin))
    result = refreshed(bench, rows, epsilon=1.0)
    assert result.success
    assert lines(bench, result, "is reused, at no charge")
    assert lines(bench, result, "Modelled as before, though their names are those of identifiers: patient_id.")
    renewed = refreshed(bench, rows, epsilon=1.0, reuse_profile=False)
    assert renewed.success
    assert lines(bench, renewed, "never modelled: patient_id (identifier)")


def test_what_was_recognised_is_found_again_with_the_profile(bench: Bench) -> None:
    rows = hospital()
    first = refreshed(bench, rows)
    assert first.success, failure(first)
    again = refreshed(bench, rows)
    assert again.success
    assert lines(bench, again, "is reused, at no charge")
    assert {c["name"]: c["kind"] for c in card(bench)["public"]}.items() >= MADE_ANEW.items()


def test_a_table_that_is_not_as_good_as_asked_is_not_published(bench: Bench) -> None:
    rows = hospital()[["ward_id", "age", "sex"]]
    gate = {"report_epsilon": 0.01, "at_least": "excellent"}
    result = refreshed(bench, rows[:300], validation=gate, epsilon=2.0)
    assert not result.success
    assert not (bench.folder / "warehouse.duckdb").exists()
    checks = {c["name"]: c for c in json.loads((bench.store / "releasable/people/checks.json").read_text())}
    assert not checks["quality_gate"]["passed"]

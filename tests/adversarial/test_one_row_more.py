"""DESIGN section 9, number 8: n rows against n + 1, through the whole graph, with the same noisy answers.

What may differ between the two runs is what the noisy answers are drawn around, and nothing else. So the answers of the
first run are given again in the second (a profile is a function of its answers, as is all that is planned from it), and the
row count is given again too. Then plans, events, costs, metadata, log lines, and the names of all released files must be
equal. What holds fresh noise or drawn rows is equal in shape only: weights and marginals have the same size; a Parquet file
of drawn rows is compressed, so its number of rows and columns is compared; pages that show numbers of drawn rows, by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.privacy import mechanisms
from tests.adversarial.test_profile_sensitivity import Step, Transcript, watched
from tests.integration.conftest import ROWS, Bench, failure, lent, people, steps

FEWER = {name: {"kind": "excluded"} for name in ("person", "seen", "income")}
"""Columns left out, so that the graph runs faster."""


def masked(text: str, folder: Path) -> str:
    """Leave out what names a run, a moment or a place: ids, hashes, times, durations, paths and process ids."""
    text = text.replace(str(folder), "<folder>")
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>", text)
    text = re.sub(r"(?<![.\w])(?=[0-9]*[a-f])[0-9a-f]{8,64}\b", "<id>", text)
    text = re.sub(r"(?<![.\w])\d{12}\b", "<id>", text)  # a code version in which chance put no letter
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?", "<time>", text)
    text = re.sub(r"\b(\d+(\.\d+)? ?(ms|s|min|m|h))+\b", "<duration>", text)
    # The burn-down shows the ledger, which is compared above, over the time that passed.
    text = re.sub(r"data:image/svg\+xml;base64,[\w+/=]+", "<picture>", text)
    # What the audit measured differs by chance; how many coordinates are reserved, and what was charged, may not.
    text = re.sub(r"(Noise multiplier|clipped sum by more than) [\d.e-]*\d", r"\1 <measured>", text)
    text = re.sub(r"Sampling rate [\d.]+, between [\d.]+ and [\d.]+, from [\d,]+ draws", "<measured>", text)
    return re.sub(r"\b(pid:?|process) \d+|\(process: \d+\)", "<process>", text)


def run(folder: Path, rows: pd.DataFrame) -> dict[str, Any]:
    """Refresh a table once, and return what can be seen of it from outside."""
    folder.mkdir()
    with lent(folder, f"sqlite:///{folder / 'ledger.db'}") as bench:
        rows.to_parquet(folder / "people.parquet")
        result = bench.refresh(columns=FEWER)
        assert result.success, failure(result)
        return seen(bench, result)


def seen(bench: Bench, result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (release,) = bench.ledger.releases("people")
    entries = bench.ledger.entries(release_id=release.id)
    out = bench.store / "releasable"
    files = {p.relative_to(out): p for p in sorted(out.rglob("*")) if p.is_file()}
    drawn = pq.ParquetFile(files[Path("people/synthetic.parquet")])
    materialized = {
        e.step_key.split("__")[-1]: e.materialization.metadata
        for e in result.get_asset_materialization_events()
        if e.step_key is not None
    }
    return {
        "links": sorted(steps(result, "STEP_SUCCESS")),
        "plan": [(e.mechanism, e.events) for e in entries],
        "cost": (release.final_epsilon, release.final_delta, release.charged_cost),
        "balance": bench.ledger.balance("people").cost_left,
        "files": [masked(str(f), bench.folder) for f in files],
        "sizes": {
            masked(str(f), bench.folder): p.stat().st_size for f, p in files.items() if f.suffix == ".safetensors"
        },
        "profile": files[Path("people/generator/profile.json")].read_text(),
        "generator": masked(files[Path("people/generator/generator.json")].read_text(), bench.folder),
        "drawn": (drawn.metadata.num_rows, drawn.schema_arrow.names),
        "metadata keys": {k: sorted(v) for k, v in materialized.items()},
        "metadata": {
            name: {k: masked(repr(v), bench.folder) for k, v in facts.items()} for name, facts in materialized.items()
        },
        "log": said(bench, result),
    }


def said(bench: Bench, result: dg.ExecuteInProcessResult) -> list[str]:
    records = bench.instance.all_logs(result.run_id)
    return [f"{r.level} {r.step_key}: {masked(r.user_message or r.message, bench.folder)}" for r in records]


def compare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = people()
    more = pd.concat([rows, rows.iloc[[0]].assign(person=10**6)], ignore_index=True)
    replay: list[Step] = []
    both: list[dict[str, Any]] = []
    for name, table in (("n", rows), ("n+1", more)):
        transcript = Transcript(replay)
        with watched(transcript, monkeypatch):
            both.append(run(folder / name, table))
        replay = transcript.steps
    first, second = both
    assert len(first["log"]) > 50
    assert "people/generator/generator.safetensors" in first["sizes"]
    assert list(first) == list(second)
    for fact in first:
        assert second[fact] == first[fact], fact


def counted(monkeypatch: pytest.MonkeyPatch, told: Callable[[int], int]) -> None:
    honest = mechanisms.noisy_count
    monkeypatch.setattr(mechanisms, "noisy_count", lambda count, **rest: (told(count), honest(count, **rest)[1]))


def test_one_row_more_changes_nothing_that_is_seen_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(monkeypatch, lambda count: ROWS + 7)
    compare(tmp_path, monkeypatch)


def test_a_plan_that_follows_the_true_count_would_be_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(monkeypatch, lambda count: count)
    with pytest.raises(AssertionError, match="plan"):
        compare(tmp_path, monkeypatch)

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import UnknownAccount
from dp_synth_pipeline.ledger import Ledger, export
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, SubsampledGaussian, Threshold
from tests.unit.ledger.stores import SMALL, ask

TRAINING = SubsampledGaussian(8.0, 0.01, 100)


@pytest.fixture
def used(ledger: Ledger) -> Ledger:
    release = ask(ledger, "f", "k")
    ledger.start(release.id, "profile", [DiscreteGaussian(90.0, 1, 4)])
    entry = ledger.start(release.id, "training", [TRAINING])
    ledger.mark(entry.id, 60)
    ledger.settle(release.id)
    ledger.start(ask(ledger, "p", "l").id, "profile", SMALL)
    ledger.declare_plan("f", name="w", events=[TRAINING], times=3, why="weekly", who="A. Officer")
    ledger.open_account("b", epsilon=1.0, delta=1e-5, blocks=["jan"], unit_in_one_block=True)
    return ledger


def test_a_statement_holds_everything_and_can_be_written_as_json(used: Ledger) -> None:
    told = json.loads(export.to_json(used))
    assert [a["name"] for a in told["accounts"]] == ["b", "f", "p"]
    assert list(told["accounts"][0]["blocks"]) == ["jan"]
    plan = told["accounts"][1]["plans"][0]
    assert (plan["name"], plan["times"], plan["left"], plan["who"]) == ("w", 3, 3, "A. Officer")
    assert told["accounts"][1]["balance"]["cost_left"] == used.balance("f").cost_left
    release = told["releases"][0]
    for field in ("who", "reserved_at", "run_id", "code_version", "table", "state", "epsilon", "final_epsilon"):
        assert release[field]
    assert told["head"] == used.head() == told["journal"][-1]["hash"]
    assert [e["steps_started"] for e in told["entries"]] == [0, 60, 0]


def test_a_statement_of_one_account_leaves_the_others_out(used: Ledger) -> None:
    told = export.statement(used, "p")
    assert [a["name"] for a in told["accounts"]] == ["p"]
    assert {r["account"] for r in told["releases"]} == {e["account"] for e in told["entries"]} == {"p"}
    with pytest.raises(UnknownAccount):
        export.statement(used, "nobody")


def test_a_table_has_a_row_for_every_entry(used: Ledger) -> None:
    rows = list(csv.DictReader(io.StringIO(export.to_csv(used))))
    assert [r["mechanism"] for r in rows] == ["profile", "training", "profile"]
    assert tuple(rows[0]) == export.COLUMNS
    assert all(r["who"] and r["run_id"] == "run-1" and r["table"] == "adult" for r in rows)
    settled = used.releases("f")[0].charged_cost
    assert float(rows[1]["left_after"]) == (used.account("f").cost_limit - (settled or 0)) / 1e9
    assert rows[2]["left_after"] == ""


def test_the_lines_in_the_manual_verify_an_export_with_dp_accounting_alone(
    used: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = ask(used, "f", "m", own_delta=1e-8)
    used.start(release.id, "count", [DiscreteLaplace(50.0), Threshold(1e-8)])
    used.start(release.id, "profile", [DiscreteGaussian(90.0, 1, 4)])
    manual = Path(__file__).parents[3] / "docs" / "privacy-ledger.md"
    lines = manual.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert len(lines.strip().splitlines()) == 5
    monkeypatch.chdir(tmp_path)
    Path("statement.json").write_text(export.to_json(used, "f"))
    exec(lines, {})
    told = export.statement(used, "f")
    told["entries"][0]["cost"] //= 2
    Path("statement.json").write_text(json.dumps(told))
    with pytest.raises(AssertionError):
        exec(lines, {})

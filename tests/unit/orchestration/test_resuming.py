"""What `--resume` goes on with: a release that is open, or what a second person was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_synth_pipeline.errors import ApprovalNeeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import resuming
from dp_synth_pipeline.orchestration.settings import TableSettings
from tests.unit.ledger.stores import ask


def test_a_run_that_waited_for_a_second_person_begins_by_resume_and_an_open_release_comes_first(tmp_path: Path) -> None:
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account("f", epsilon=3.0, delta=1e-5, approve_above=0.25)
    table = TableSettings(table="adult", source="a.parquet", account="f", epsilon=2.0)
    with pytest.raises(InvalidInput, match="no release of table adult to go on with"):
        resuming.begun(ledger, table)
    with pytest.raises(ApprovalNeeded):
        ask(ledger, "f", "big", epsilon=2.0)
    assert resuming.begun(ledger, table) is None
    with pytest.raises(InvalidInput, match="no release"):
        resuming.begun(ledger, table.model_copy(update={"table": "other"}))
    held = ask(ledger, "f", "small")
    assert resuming.begun(ledger, table) == held

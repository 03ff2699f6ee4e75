"""A release goes on under the terms that it was reserved for, also if its version did not know of a setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.synthesis import terms
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.settings import ReleaseSettings, terms_version

MONTHS = {"column": "seen", "cadence": "monthly", "start": "2026-01-01"}


def test_a_release_of_a_version_that_did_not_know_of_a_setting_goes_on_while_nobody_sets_it(tmp_path: Path) -> None:
    facts = {"table": "t", "source": "t.parquet", "account": "a", "epsilon": 1.0}
    asked = ReleaseSettings(**facts, partitions=MONTHS)
    kept = asked.terms()
    del kept["partitions"]["blocks"], kept["partitions"]["windows"]
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account("a", epsilon=2.0, delta=1e-5, why="test")
    facts_of_run = {"key": "k", "table": "t", "run_id": "r", "epsilon": 1.0, "delta": 1e-6}
    release = ledger.reserve("a", code_version=terms_version(kept), **facts_of_run)
    state = RunState(release.id, terms=kept)
    assert terms.of_release(asked, state, release) == asked
    with pytest.raises(ReleaseStateError, match=r"^partitions\.blocks changed since"):
        terms.of_release(ReleaseSettings(**facts, partitions={**MONTHS, "blocks": "daily"}), state, release)
    with pytest.raises(ReleaseStateError, match=r"^partitions\.windows changed since"):
        terms.of_release(ReleaseSettings(**facts, partitions={**MONTHS, "windows": 3}), state, release)

"""What a run must not get away with: DESIGN section 9, numbers 13 to 18, with the ledger on SQLite and on PostgreSQL."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.synthesis.protection import LedgerProtection
from dp_synth_pipeline.synthesis.publication import require_settled
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.store import Store
from tests.integration.conftest import failure, lent, steps
from tests.light import light  # noqa: F401
from tests.unit.ledger.stores import new_store


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request, tmp_path):
    with new_store(request.param, tmp_path) as url, lent(tmp_path, url) as found:
        yield found


def test_13_two_runs_on_the_same_rows_share_no_noise(bench):
    weights = []
    for _ in range(2):
        assert bench.refresh(epsilon=1.0).success
        weights.append((bench.store / "releasable/people/generator/generator.safetensors").read_bytes())
    assert weights[0] != weights[1]


@pytest.mark.parametrize("setting", ["seed", "random_state", "noise_seed"])
def test_13_a_seed_in_the_settings_is_refused(bench, setting):
    with pytest.raises(ValueError, match="seed"):
        bench.settings(training={setting: 1})


@pytest.mark.parametrize("setting", ["early_stopping", "best_checkpoint", "keep_best", "patience"])
def test_14_selecting_on_a_loss_of_real_rows_is_refused(bench, setting):
    with pytest.raises(ValueError, match="no epsilon would cover"):
        bench.settings(training={setting: True})


def test_15_three_trials_with_the_best_kept_are_three_charges(bench):
    spent = [bench.ledger.balance("people").cost_spent]
    for _ in range(3):
        assert bench.refresh(epsilon=1.0).success
        spent.append(bench.ledger.balance("people").cost_spent)
    one = spent[1]
    assert one > 0
    assert np.diff(spent) == pytest.approx([one] * 3, rel=0.05)
    assert len({r.id for r in bench.ledger.releases("people") if r.state == "settled"}) == 3


def test_16_a_person_with_a_thousand_rows_counts_as_one_unit_of_at_most_max_rows(bench):
    frame = pd.read_parquet(bench.folder / "people.parquet")
    crowd = frame.iloc[[0] * 1000].assign(person=-1, city="Rome")
    pd.concat([frame, crowd]).to_parquet(bench.folder / "people.parquet")
    bench.ledger.open_account("persons", epsilon=10.0, delta=1e-4, unit="person", max_rows=3, why="test")
    result = bench.refresh(account="persons", unit={"column": "person", "max_rows": 3}, columns={})
    assert result.success, failure(result)
    handle = json.loads((bench.store / "restricted/people/ingested.json").read_text())
    kept = pd.read_parquet(handle["files"]["snapshot"])["__privacy_unit"].value_counts()
    assert kept.max() == 3
    assert handle["units"] == frame["person"].nunique() + 1


def test_16_blocks_are_opened_only_when_a_person_vouches_that_no_unit_spans_them(bench):
    with pytest.raises(InvalidInput, match="every privacy unit lives in one"):
        bench.ledger.open_account("months", epsilon=1.0, delta=1e-5, blocks=["2026-01", "2026-02"])


def test_17_no_event_carries_a_private_value(bench):
    frame = pd.read_parquet(bench.folder / "people.parquet")
    frame.loc[0, ["city", "income"]] = ["CANARY-CITY", 98765.43]
    frame.to_parquet(bench.folder / "people.parquet")
    result = bench.refresh()
    assert result.success, failure(result)
    said = json.dumps([repr(e) for e in result.all_events]) + json.dumps([str(r) for r in bench.ledger.history()])
    assert not any(secret in said for secret in ("CANARY-CITY", "98765.43"))


def test_18_nothing_is_published_that_no_settled_release_paid_for(bench):
    open_release = bench.ledger.reserve(
        "people", key="k", epsilon=1.0, delta=1e-5, own_delta=1e-8, table="people", run_id="r", code_version="c"
    )
    settings = bench.settings()
    protection = LedgerProtection(settings, bench.ledger)
    release = Release(settings, protection, Store(bench.store), RunState(open_release.id))
    with pytest.raises(ReleaseStateError, match="not settled"):
        require_settled(release)
    assert bench.refresh(epsilon=1.0).success
    handles = bench.store / "restricted/people"
    forged = json.loads((handles / "synthetic.json").read_text()) | {"release": open_release.id}
    (handles / "synthetic.json").write_text(json.dumps(forged))
    keys = [k for k in bench.definitions().resolve_all_asset_keys() if k.path[-1] == "published"]
    again = (
        bench.definitions()
        .resolve_job_def("people_refresh")
        .execute_in_process(
            instance=bench.instance,
            asset_selection=keys,
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
    )
    assert "published" in steps(again, "STEP_FAILURE")
    assert failure(again).user_failure_data.metadata["error"].value == "ReleaseStateError"

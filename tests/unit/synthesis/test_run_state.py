"""What one stage hands to the next survives as JSON, and that of the version before is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.synthesis.run_state import RunState

BEFORE = {
    "release": "r1",
    "schema": "{}",
    "digest": "d",
    "units": 12,
    "files": {"snapshot": "/s/snapshot.parquet", "generator": "/s/generator"},
    "facts": {"profile_release": "r0", "rows": 12, "synthetic_rows": 10, "seal": "x", "published": ["a.parquet"]},
    "partitions": ["2026-01-01"],
    "terms": {"epsilon": 1.0},
    "ran": [{"kind": "gaussian", "noise_multiplier": 2.0, "count": 1}],
}
"""A handle as the version before wrote it."""


def full() -> RunState:
    state = RunState("r1", "{}", "d", 12, partitions=("2026-01-01",), terms={"epsilon": 1.0})
    state = state.with_(snapshot=Path("/s/snapshot.parquet"), rows=12, accuracy={"accuracy_one": 0.9})
    return state.having_run("training", [SubsampledGaussian(1.0, 0.1, 10)])


def test_a_state_is_read_back_from_json_as_it_was():
    assert RunState.from_dict(json.loads(json.dumps(full().to_dict()))) == full()


def test_what_is_not_known_yet_is_not_written():
    written = RunState("r1").to_dict()
    assert (written["files"], written["facts"], written["ran"]) == ({}, {}, [])


def test_a_state_of_the_version_before_is_read_and_its_events_name_no_mechanism():
    state = RunState.from_dict(BEFORE)
    assert state.path("snapshot") == Path("/s/snapshot.parquet")
    assert (state.facts.rows, state.facts.published) == (12, ["a.parquet"])
    assert state.ran == (TaggedEvent("", Gaussian(2.0)),)
    assert (state.untyped, state.set_aside) == ((), None), "its types were told from the cells, as it was then"
    kept = {k: v for k, v in state.to_dict().items() if k in BEFORE and k != "ran"}
    assert kept == {k: v for k, v in BEFORE.items() if k != "ran"}


def test_a_mechanism_stands_beside_its_event_and_never_in_it():
    (ran,) = full().to_dict()["ran"]
    assert ran["mechanism"] == "training"
    assert "mechanism" not in ran["event"]


def test_a_file_that_no_stage_wrote_is_named():
    with pytest.raises(ReleaseStateError, match="no generator yet"):
        full().path("generator")

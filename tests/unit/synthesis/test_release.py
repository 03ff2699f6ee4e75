"""A release's codec is that of its schema and its released profile as they are now, and made once for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState, dump_schema
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build

WARD = ColumnProfile("ward", Kind.CATEGORY, ("A", "B"), (0.5, 0.5))
PROFILE = TableProfile(100, 100, "row", (WARD,))


def test_a_codec_is_made_once_and_anew_when_the_profile_is_measured_again(tmp_path) -> None:
    settings = ReleaseSettings(table="visits", source="v.csv", account="clinic", epsilon=1.0)
    (file := tmp_path / "profile.json").write_text(PROFILE.to_json())
    state = RunState("release", dump_schema(build({"ward": pa.string()}, {}))).with_(profile=file)
    nobody: Any = None  # no row is read, so nobody pays
    release = Release(settings, nobody, Store(tmp_path), state)
    first = release.codec
    assert release.codec is first
    more = replace(WARD, values=("A", "B", "C"), weights=(0.4, 0.3, 0.3))
    file.write_text(replace(PROFILE, columns=(more,)).to_json())
    assert release.codec.cardinalities[0] == first.cardinalities[0] + 1

"""A schema that was inferred, as a person reads it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import yaml

from dp_synth_pipeline.synthesis import schema_inference
from dp_synth_pipeline.synthesis.schema_inference import Inferred
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from tests.unit.tabular.snapshots import profile, quiet, take

RELEASE = SimpleNamespace(id="r1", account="a", final_epsilon=1.0, final_delta=1e-6)


@pytest.mark.parametrize("odd", ["a\0b", "\a", "\x1b[31m", "\x7f", "\ufeff", "\ufffe"], ids=ascii)
def test_a_category_of_characters_that_yaml_does_not_take_is_still_a_schema(odd: str, tmp_path: Path) -> None:
    taken = take(pa.table({"x": [odd, "plain"] * 200}), tmp_path)
    found = Inferred(taken.schema, profile(taken, quiet(400)), RELEASE)  # type: ignore[arg-type]
    settings = ReleaseSettings(table="t", source="t.csv", account="a", epsilon=1.0)
    text = schema_inference.to_yaml(found, settings)
    assert {*yaml.safe_load(text)["columns"]["x"]["categories"]} == {odd, "plain"}
    (remark,) = [line for line in text.splitlines() if "plain 50 %" in line]
    assert remark.isprintable()

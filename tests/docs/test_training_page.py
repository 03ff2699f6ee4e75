"""The page of parameters holds what the settings say today, and tells what to start with by figures that follow."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from dp_synth_pipeline.model.dpsgd.plan import plan_training
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.synthesis.training_settings import TrainingSettings
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/training.md"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/site/reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_current(reference: ModuleType) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert reference.current(text) == text, "write it anew: python docs/site/reference.py docs/training.md"
    assert reference.current(text.replace("`training.looks`", "`training.peeks`")) == text


def test_the_page_on_choosing_holds_what_is_expected_today(reference: ModuleType) -> None:
    text = (ROOT / "docs/choosing.md").read_text(encoding="utf-8")
    assert reference.current(text) == text, "write it anew: python docs/site/reference.py docs/choosing.md"


def test_every_parameter_has_a_row_with_all_that_there_is_to_know(reference: ModuleType) -> None:
    rows = re.findall(r"^\| `([\w.]+)` \|(.+)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {f"training.{name}" for name in TrainingSettings.model_fields} < {name for name, _ in rows}
    for name, cells in rows:
        assert all(cell.strip() for cell in cells.split(" | ")), name


def test_steps_and_batches_by_size_are_those_of_the_plan() -> None:
    told = re.findall(
        r"^\| ([\d,]+) \| ([\d,]+), ([\d,]+) \| ([\d,]+) \| (\S+) \|", PAGE.read_text(encoding="utf-8"), re.M
    )
    assert len(told) == 3
    for row in told:
        units, long, short, batch, delta = (float(cell.replace(",", "")) for cell in row)
        plans = [
            plan_training(int(units), TrainingSpec(max_epochs=epochs)) for epochs in (TrainingSpec().max_epochs, 10)
        ]
        assert [plan.steps for plan in plans] == [long, short]
        assert plans[0].expected_batch == batch
        assert delta == pytest.approx(units**-1.2, rel=0.05)

"""The examples in the docstrings of all modules are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import dp_synth_pipeline

ROOT = Path(dp_synth_pipeline.__file__).parent
MODULES = [
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8") and path.stem != "synthesizer"  # its example needs a home of its own
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert result.failed == 0

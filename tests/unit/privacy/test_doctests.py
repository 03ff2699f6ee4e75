"""The examples in the docstrings of the public functions are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = {
    "privacy.accountant": 2,
    "privacy.budget": 4,
    "privacy.calibration": 1,
    "privacy.events": 1,
    "privacy.filter": 4,
    "privacy.replacement": 1,
    "tabular.formats": 1,
    "tabular.durations": 1,
    "tabular.sql": 2,
    "tabular.storage": 1,
    "model.plan": 1,
}
"""Modules with examples, and how many functions show at least one."""


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    module = importlib.import_module(f"dp_synth_pipeline.{name}")
    shown = [t for t in doctest.DocTestFinder().find(module) if t.examples]
    assert len(shown) >= MODULES[name]
    result = doctest.testmod(module)
    assert result.failed == 0

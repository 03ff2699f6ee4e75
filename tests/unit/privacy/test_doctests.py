"""The examples in the docstrings of the public functions are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = {
    "privacy.accountant": 2,
    "privacy.budget": 3,
    "privacy.calibration": 1,
    "privacy.events": 3,
    "privacy.filter": 4,
    "privacy.odometer": 2,
    "privacy.tagged": 2,
    "ledger.costs": 2,
    "ledger.ledger": 1,
    "ledger.oversight": 1,
    "tabular.formats": 1,
    "tabular.durations": 1,
    "tabular.storage": 1,
    "synthesis.protection": 1,
    "synthesis.settings": 2,
    "synthesis.blocks": 1,
    "synthesis.database.sharing": 1,
    "model.histories.context": 2,
    "orchestration.settings": 1,
    "tabular.sql": 2,
    "model.autoregressive.plan": 1,
    "model.autoregressive.initialization": 1,
    "model.dpsgd.plan": 2,
    "model.marginals.pairs": 1,
}
"""Modules with examples, and how many functions show at least one."""


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    module = importlib.import_module(f"dp_synth_pipeline.{name}")
    shown = [t for t in doctest.DocTestFinder().find(module) if t.examples]
    assert len(shown) >= MODULES[name]
    result = doctest.testmod(module)
    assert result.failed == 0

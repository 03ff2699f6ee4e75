"""Evidence from real rows enters the event log only if a person asks for it, and then as passed or warned alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.evidence_checks import CHECKS, evaluations
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.reporting.quality_report import FAILED
from dp_synth_pipeline.synthesis.holdout import OTHER_RELEASE
from dp_synth_pipeline.validation.evidence import HOW, SAME, TOO_FEW, Evidence


def settings(**validation: object) -> TableSettings:
    return TableSettings(table="t", source="t.csv", account="a", epsilon=1.0, validation=validation)  # type: ignore[arg-type]


ASKED = settings(holdout="h.csv", evidence_checks=True)


def attack(warns: bool) -> SimpleNamespace:
    return SimpleNamespace(name="membership", value=0.987654, warns=warns)


def found(near: bool = False, member: bool = False, attribute: bool = False) -> Evidence:
    attacks = (attack(member), attack(False), attack(attribute))
    return Evidence(closeness=SimpleNamespace(warns=near, nearer_training=0.987654), attacks=attacks)  # type: ignore[arg-type]


def names(table: TableSettings) -> set[str]:
    keys = build_defs([table]).resolve_asset_graph().asset_check_keys
    return {k.name for k in keys if k.asset_key.path[-1] == "quality_report"}


def test_there_are_no_such_checks_until_a_person_asks_for_them() -> None:
    assert names(settings(holdout="h.csv")) == set()
    assert names(ASKED) == set(CHECKS)


@pytest.mark.parametrize("which", range(3))
def test_each_warning_is_told_by_its_own_check_and_blocks_nothing(which: int) -> None:
    asked = [i == which for i in range(3)]
    results = list(evaluations(ASKED, found(*asked)))
    assert [r.passed for r in results] == [not a for a in asked]
    assert {r.severity.value for r in results} == {"WARN"}


def test_no_figure_is_told() -> None:
    for result in evaluations(ASKED, found(True, True, True)):
        assert result.metadata == {}
        assert "0.98" not in str(result)


@pytest.mark.parametrize("missing", [HOW, SAME, TOO_FEW, OTHER_RELEASE, FAILED])
def test_what_could_not_be_compared_warns_of_nothing_and_the_log_does_not_say_why(missing: str) -> None:
    """Why there is nothing to compare may follow from real rows: that a holdout is the source, or has too few rows."""
    results = list(evaluations(ASKED, Evidence(missing)))
    assert all(r.passed for r in results)
    assert [r.description for r in results] == [r.description for r in evaluations(ASKED, found())]
    assert missing not in str(results)


def test_nothing_is_told_without_being_asked() -> None:
    assert list(evaluations(settings(holdout="h.csv"), found(True, True, True))) == []


def test_checks_without_a_holdout_are_refused() -> None:
    with pytest.raises(ValueError, match="write holdout"):
        settings(evidence_checks=True)

"""Shows as asset checks whether distances and attacks on real rows warned, where a person lets that out of the report.

Each outcome is an exact function of real rows: about one bit, which no epsilon covers. So none of these checks exists
until `validation: evidence_checks` asks for them, and the release card says so then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from dp_synth_pipeline.orchestration.settings import TableSettings

if TYPE_CHECKING:
    from dp_synth_pipeline.validation.evidence import Evidence

CHECKS = {
    "evidence_closeness": "no more synthetic rows lie on or near rows learnt from than near a holdout",
    "evidence_membership": "whoever was learnt from is not told from whoever was not",
    "evidence_attributes": "sensitive values of those learnt from are guessed no better than others'",
}
"""Warnings that a person may ask for, and what each expects."""


def specs(settings: TableSettings) -> list[dg.AssetCheckSpec]:
    """Return the checks of one table's report: none, unless a person lets their outcome into the event log."""
    if not settings.validation.evidence_checks:
        return []
    asset = dg.AssetKey([settings.name, "quality_report"])
    return [
        dg.AssetCheckSpec(name, asset=asset, description=f"Expects that {expectation}.")
        for name, expectation in CHECKS.items()
    ]


def evaluations(settings: TableSettings, evidence: Evidence) -> Iterator[dg.AssetCheckResult]:
    """Yield passed or warned for each of `specs`, and nothing else: the figures stay on the restricted page."""
    warned = {
        "evidence_closeness": evidence.closeness is not None and evidence.closeness.warns,
        "evidence_membership": any(a.warns for a in evidence.attacks[:1]),
        "evidence_attributes": any(a.warns for a in evidence.attacks[1:]),
    }
    for spec in specs(settings):
        yield dg.AssetCheckResult(
            asset_key=spec.asset_key,
            check_name=spec.name,
            passed=not warned[spec.name],
            severity=dg.AssetCheckSeverity.WARN,
            description="The figures, with their intervals and limits, or why there are none, are on the restricted page.",
        )

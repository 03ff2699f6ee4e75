"""Shows the audit of what ran as three asset checks of the generator. If one fails, no rows are drawn or published."""

from collections.abc import Generator, Iterator
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import AuditFailed
from dp_synth_pipeline.orchestration.assets.stage import key
from dp_synth_pipeline.orchestration.settings import AnySettings
from dp_synth_pipeline.privacy.audit import NAMES, TITLES, Audit

NOT_APPLICABLE = (
    "Not applicable: no noisy step was taken, since method: marginals, or a refresh that remembers, trains on no row."
)


def specs(settings: AnySettings, generator: str = "generator") -> list[dg.AssetCheckSpec]:
    """Return the checks of one table's generator, known before anything runs; none without a privacy guarantee.

    They are part of the generator's step, not steps of their own, so that no selection of assets leaves them out.
    """
    if settings.privacy == "none":
        return []
    asset = key(settings, generator)
    return [
        dg.AssetCheckSpec(n, asset=asset, blocking=True, description=f"Checks {TITLES[n]}.", metadata={"alpha": 1e-6})
        for n in NAMES
    ]


def evaluations(
    settings: AnySettings, audit: Audit | None, generator: str = "generator"
) -> Iterator[dg.AssetCheckResult]:
    """Yield a result for each of `specs`; every number in them was measured on coordinates that hold no data."""
    if settings.privacy == "none":
        return
    asset = key(settings, generator)
    if audit is None:
        for name in NAMES:
            yield dg.AssetCheckResult(asset_key=asset, check_name=name, passed=True, description=NOT_APPLICABLE)
        return
    for finding in audit.findings:
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=finding.name,
            passed=finding.passed,
            severity=dg.AssetCheckSeverity.ERROR,
            description=finding.told,
            metadata={
                "claimed": finding.claimed,
                "measured": dg.MetadataValue.float(finding.measured),
                "low": dg.MetadataValue.float(finding.low),
                "high": dg.MetadataValue.float(finding.high),
                "steps": audit.steps,
            },
        )


def audited(
    settings: AnySettings, release: Any, learning: Any, generator: str = "generator"
) -> Generator[dg.AssetCheckResult, None, dict[str, Any]]:
    """Run a stage that learns, yield what its audit saw, whether or not that passed, and return the stage's facts.

    Raises:
        AuditFailed: if it did not pass; nobody may draw from these weights.
    """
    try:
        facts = release.run(learning)
    except AuditFailed:
        yield from evaluations(settings, learning.audit, generator)
        raise
    yield from evaluations(settings, learning.audit, generator)
    return facts

"""The gate `validation: at_least`: whether charged figures show that a table is good enough to be published.

The verdict of the restricted report looks at real rows without noise, so whether a table is published may not hang on it.
The figures of `report_epsilon` were charged. They are read at the end of their noise that speaks against the table: one
that is let through is as good as asked with a probability of 95 % at least.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.validation.checks import QUALITY, Check
from dp_synth_pipeline.validation.fidelity import VERDICTS

EXPECTATION = "expect_charged_figures_to_be_at_least"

POOR = "poor"


def check_for(at_least: str, metrics: Mapping[str, float]) -> Check:
    """Return the gate.

    Args:
        at_least: excellent, good or fair.
        metrics: the released figures of `dp_metrics`, each named `accuracy_...`; none if they were lost.
    """
    text = (
        f"The charged figures, which are means over columns and over pairs of them, show that the table is at least "
        f"{at_least}. The report also looks at the worst of these, on real rows."
    )
    return Check(QUALITY, None, "quality", True, text, EXPECTATION, {"at_least": at_least, "metrics": dict(metrics)})


def evaluate(check: Check, table: pa.Table) -> tuple[bool, dict[str, Any]]:
    """Return whether the gate lets a table through, and what it was told; the rows themselves are not looked at."""
    metrics, asked = check.kwargs["metrics"], check.kwargs["at_least"]
    if "accuracy_one" not in metrics:
        return False, {"problem": "the charged figures were lost with an earlier attempt; release the table again"}
    reached, gap = charged(metrics), charged_gap(metrics)
    words = [*VERDICTS, POOR]
    limit = VERDICTS[asked][0]
    figures = {"at_least": asked, "reached": reached, "loss_at_most": round(gap, 4), "loss_allowed": limit}
    return words.index(reached) <= words.index(asked), figures


def charged(metrics: Mapping[str, float]) -> str:
    """Return excellent, good, fair or poor, by charged figures alone."""
    gap = charged_gap(metrics)
    return next((word for word, (mean, *_) in VERDICTS.items() if gap <= mean), POOR)


def charged_gap(metrics: Mapping[str, float]) -> float:
    """Return how far one and two columns agree less than chance explains, at most, whatever the noise hides at 95 %."""
    ways = [way for way in ("one", "two") if f"accuracy_{way}" in metrics]
    return max(_loss(metrics, way) for way in ways)


def _loss(metrics: Mapping[str, float], way: str) -> float:
    best, within = metrics[f"accuracy_{way}_best"], metrics[f"accuracy_{way}_within"]
    return best - metrics[f"accuracy_{way}"] + within

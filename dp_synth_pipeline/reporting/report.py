"""The fidelity report is one HTML page that shows in ten seconds whether a synthetic table is good, and where not.

It is restricted: it looks at real rows without noise, and says so at its top. It loads nothing from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import pandas as pd

from dp_synth_pipeline.privacy.budget import level
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.panels import matrix, panel
from dp_synth_pipeline.reporting.templates import render, source
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation import figures as measured
from dp_synth_pipeline.validation import groups, patterns, relations
from dp_synth_pipeline.validation.checks import CheckResult
from dp_synth_pipeline.validation.evidence import HOW, Evidence
from dp_synth_pipeline.validation.fidelity import MOST_ROWS, Fidelity
from dp_synth_pipeline.validation.figures import Figures

WORST = 3
"""Columns and pairs at the top of the page."""

WORST_PAIRS = 8

NOT_ASKED = Evidence(HOW)
"""Distances and attacks when nobody gave a holdout."""


@dataclass(frozen=True)
class ReportMeta:
    """What the report says about the release it belongs to; whatever is None is left out.

    Attributes:
        table: the table's name.
        epsilon, delta: what the release cost.
        unit, account, run_id, code_version: as on the release card.
        created: when, as text.
        checks: results of the expectations.
        guarantee: the sentence that says that there is none; empty for a release with an epsilon.
    """

    table: str
    epsilon: float | None = None
    delta: float | None = None
    unit: str = "row"
    account: str | None = None
    run_id: str | None = None
    code_version: str | None = None
    created: str | None = None
    checks: Sequence[CheckResult] = ()
    guarantee: str = ""


LIMITS = {
    "measures": [relations.PEARSON, relations.CRAMER, relations.RATIO],
    "rare": patterns.RARE,
    "smallest": groups.SMALLEST,
    "most_rows": measured.MOST_ROWS,
}
"""What the page says of how its figures were taken."""


def render_report(
    figures: Figures,
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: TableSchema,
    meta: ReportMeta,
    evidence: Evidence = NOT_ASKED,
) -> str:
    """Return the report as one self-contained HTML page that makes no request to any network.

    Args:
        figures: as `measure` returned them for the two tables.
        real, synthetic: the tables themselves, for the charts.
        schema: their columns.
        meta: what to say about the release.
        evidence: what distances and attacks found with a holdout.
    """
    from plotly.offline import get_plotlyjs

    fidelity = figures.fidelity
    return render(
        "report.html.j2",
        plotly=get_plotlyjs(),
        script=source("report.js"),
        charts=_json(_charts(figures, real, synthetic, schema)),
        f=fidelity,
        g=figures,
        meta=meta,
        verdict=wording.verdict(fidelity),
        tiles=_tiles(figures, meta),
        scale=max([0.05, *(c.distance for c in fidelity.columns)]),
        pair_scale=max([0.05, *(p.distance for p in fidelity.pairs)]),
        worst_columns=fidelity.ranked[:WORST],
        worst_pairs=fidelity.worst_pairs[:WORST_PAIRS],
        worst=WORST,
        **LIMITS,
        failed=[r for r in meta.checks if not r.passed],
        evidence=evidence,
    )


def _charts(figures: Figures, real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema) -> dict[str, Any]:
    left, right = (t if len(t) <= MOST_ROWS else t.sample(MOST_ROWS) for t in (real, synthetic))
    panels = [
        asdict(panel(schema[c.name], pd.Series(left[c.name]), pd.Series(right[c.name]), c.distance))
        for c in figures.fidelity.ranked
    ]
    related = figures.relations
    names = [escape(n) for n in related.names]
    return {
        "panels": [{**p, "name": escape(p["name"]), "labels": [escape(v) for v in p["labels"]]} for p in panels],
        "distance": _square(figures.fidelity, "distance", related.names),
        "relation_real": {"names": names, "cells": related.real},
        "relation_synthetic": {"names": names, "cells": related.synthetic},
        "relation_difference": {"names": names, "cells": related.difference},
    }


def _square(fidelity: Fidelity, figure: str, names: Sequence[str]) -> dict[str, Any]:
    square = matrix(fidelity, figure, names=names)
    return {"names": [escape(n) for n in square.names], "cells": square.cells}


def _tiles(figures: Figures, meta: ReportMeta) -> list[dict[str, str]]:
    reached, fidelity = figures.accuracy, figures.fidelity
    parts = ", ".join(f"{100 * v:.1f}" for v in (reached.one, reached.two, reached.three) if v is not None)
    ways = ", ".join(["columns", "pairs", "triples"][: parts.count(",") + 1])
    tiles = [_tile("Accuracy", _percent(reached.overall), f"{ways}: {parts}; chance allows {_percent(reached.best)}")]
    if (detection := figures.told_apart) is not None:
        tiles.append(
            _tile("Told from real rows", f"{detection.auc:.3f}", "AUC of a model; 0.5 is guessing, 1 always right")
        )
    if (guess := figures.prediction) is not None and guess.real is not None and guess.synthetic is not None:
        note = f"{guess.score} learnt from synthetic rows; from real rows: {guess.real:.3f}"
        tiles.append(_tile(f"Predicts {guess.target}", f"{guess.synthetic:.3f}", note))
    tiles.append(_tile("Rows", f"{fidelity.rows_synthetic:,}", f"synthetic; real: {fidelity.rows_real:,}"))
    if meta.epsilon is not None:
        delta = "" if meta.delta is None else f"δ = {wording.scientific(meta.delta)}; "
        note = f"{delta}{level(meta.epsilon)} protection of one {meta.unit}"
        tiles.append(_tile("Privacy, ε", wording.at_most(meta.epsilon), note))
    if meta.guarantee:
        tiles.append(_tile("Privacy", "none", "the source was declared public"))
    if meta.checks:
        good = sum(r.passed for r in meta.checks)
        tiles.append(_tile("Checks passed", f"{good} of {len(meta.checks)}", "expectations of the synthetic table"))
    return tiles


def _tile(title: str, figure: str, note: str) -> dict[str, str]:
    return {"title": title, "figure": figure, "note": note}


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")

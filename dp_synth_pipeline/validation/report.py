"""The fidelity report: one HTML page that shows in ten seconds whether a synthetic table is good, and where not.

Restricted: it looks at real rows without noise, and says so at its top. It loads nothing from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import pandas as pd

from dp_synth_pipeline.privacy.budget import level
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation import wording
from dp_synth_pipeline.validation.checks import CheckResult
from dp_synth_pipeline.validation.fidelity import MOST_ROWS, Fidelity
from dp_synth_pipeline.validation.panels import matrix, panel
from dp_synth_pipeline.validation.templates import render, source

WORST_PAIRS = 8


@dataclass(frozen=True)
class ReportMeta:
    """What the report says about the release it belongs to; whatever is None is left out.

    Attributes:
        table: the table's name.
        epsilon, delta: what the release cost.
        unit, account, run_id, code_version: as on the release card.
        created: when, as text.
        checks: results of the expectations.
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


def render_report(
    fidelity: Fidelity, real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, meta: ReportMeta
) -> str:
    """Return the report as one self-contained HTML page that makes no request to any network.

    Args:
        fidelity: as `compare` returned it for the two tables.
        real, synthetic: the tables themselves, for the charts.
        schema: their columns.
        meta: what to say about the release.
    """
    from plotly.offline import get_plotlyjs

    left, right = (t if len(t) <= MOST_ROWS else t.sample(MOST_ROWS) for t in (real, synthetic))
    panels = [
        asdict(panel(schema[c.name], pd.Series(left[c.name]), pd.Series(right[c.name]), c.distance))
        for c in fidelity.ranked
    ]
    charts = {
        "panels": [{**p, "name": escape(p["name"]), "labels": [escape(v) for v in p["labels"]]} for p in panels],
        "distance": _square(fidelity, "distance"),
        "relation_real": _square(fidelity, "relation_real", 1.0),
        "relation_synthetic": _square(fidelity, "relation_synthetic", 1.0),
    }
    return render(
        "report.html.j2",
        plotly=get_plotlyjs(),
        script=source("report.js"),
        charts=_json(charts),
        f=fidelity,
        meta=meta,
        verdict=wording.verdict(fidelity),
        tiles=_tiles(fidelity, meta),
        scale=max([0.05, *(c.distance for c in fidelity.columns)]),
        pair_scale=max([0.05, *(p.distance for p in fidelity.pairs)]),
        worst_pairs=fidelity.worst_pairs[:WORST_PAIRS],
        failed=[r for r in meta.checks if not r.passed],
    )


def _square(fidelity: Fidelity, figure: str, diagonal: float | None = None) -> dict[str, Any]:
    square = matrix(fidelity, figure, diagonal)
    return {"names": [escape(n) for n in square.names], "cells": square.cells}


def _tiles(fidelity: Fidelity, meta: ReportMeta) -> list[dict[str, str]]:
    best = [f"a fresh real sample: {_percent(1 - b)}" for b in (fidelity.baseline1, fidelity.baseline2)]
    tiles = [
        _tile("Accuracy, one column", _percent(fidelity.accuracy1), best[0]),
        _tile("Accuracy, two columns", _percent(fidelity.accuracy2), best[1]),
        _tile("Rows", f"{fidelity.rows_synthetic:,}", f"synthetic; real: {fidelity.rows_real:,}"),
    ]
    if meta.epsilon is not None:
        delta = "" if meta.delta is None else f"δ = {wording.scientific(meta.delta)}; "
        note = f"{delta}{level(meta.epsilon)} protection of one {meta.unit}"
        tiles.append(_tile("Privacy, ε", wording.at_most(meta.epsilon), note))
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

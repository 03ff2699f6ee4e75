"""The fidelity report is one HTML page that shows in ten seconds whether a synthetic table is good, and where not.

It is restricted: it looks at real rows without noise, and says so at its top. It loads nothing from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dp_synth_pipeline.reporting import scaling, wording
from dp_synth_pipeline.reporting.templates import render
from dp_synth_pipeline.tabular.profiling import formulas
from dp_synth_pipeline.validation import figures as measured
from dp_synth_pipeline.validation import groups, patterns, relations, suggested_rules
from dp_synth_pipeline.validation.checks import CheckResult
from dp_synth_pipeline.validation.evidence import HOW, Evidence
from dp_synth_pipeline.validation.figures import Figures
from dp_synth_pipeline.validation.rows_per_unit import RowsPerUnit

WORST = 3
"""Columns and pairs at the top of the page."""

WORST_PAIRS = 8

MOST_LINES = 200
"""Lines of a table that has one for each column; a page of more would be too large to open."""

NOT_ASKED = Evidence(HOW)
"""Distances and attacks when nobody gave a holdout."""


@dataclass(frozen=True)
class ReportMeta:
    """What the report says about the release it belongs to; whatever is None is left out.

    Attributes:
        table: the table's name.
        epsilon, delta: what the release cost.
        unit, max_rows, account, run_id, code_version: as on the release card.
        created: when, as text.
        checks: results of the expectations.
        guarantee: the sentence that says that there is none; empty for a release with an epsilon.
        looks: the noisy losses that training paid for, as on the release card.
    """

    table: str
    epsilon: float | None = None
    delta: float | None = None
    unit: str = "row"
    max_rows: int = 1
    account: str | None = None
    run_id: str | None = None
    code_version: str | None = None
    created: str | None = None
    checks: Sequence[CheckResult] = ()
    guarantee: str = ""
    looks: Sequence[dict[str, Any]] = ()


NO_ROWS = "No real row took part, so there is nothing to compare: what was drawn is noise."
"""What a report says where there is nothing to say it of."""

LIMITS = {
    "measure": relations.MEASURE,
    "rare": patterns.RARE,
    "smallest": groups.SMALLEST,
    "most_rows": measured.MOST_ROWS,
    "fewest": suggested_rules.FEWEST,
    "most_numbers": formulas.MOST_COLUMNS,
    "worst": WORST,
    "lines": MOST_LINES,
}
"""What the page says of how its figures were taken."""


def render_report(
    figures: Figures, meta: ReportMeta, evidence: Evidence = NOT_ASKED, units: RowsPerUnit | None = None
) -> str:
    """Return the report as one self-contained HTML page without scripts that makes no request to any network.

    Args:
        figures: as `measure` returned them for the two tables.
        meta: what to say about the release.
        evidence: what distances and attacks found with a holdout.
        units: how many rows a unit has, if a unit has several.
    """
    told = {
        "verdict": wording.verdict(figures.fidelity),
        "apart": wording.without_empty(figures.fidelity),
        "evidence": evidence,
        "loss": scaling.losses(meta.looks),
    }
    return render("report.html.j2", **told, **table_facts(figures, meta, units=units))


def render_without_figures(meta: ReportMeta, why: str) -> str:
    """Return the page of a release of which nothing can be compared, since no real row took part, say."""
    return render("report_without_figures.html.j2", meta=meta, told=why)


def table_facts(
    figures: Figures, meta: ReportMeta, *, units: RowsPerUnit | None = None, lines: int = 0
) -> dict[str, Any]:
    """Return what `report_table.html.j2` shows of one table.

    Args:
        lines: lines of a table that has one for each column, if the page is shared with other tables.
    """
    fidelity, related = figures.fidelity, figures.relations
    return {
        "f": fidelity,
        "g": figures,
        "meta": meta,
        "tiles": _tiles(figures, meta),
        "scale": max([0.05, *(c.distance for c in fidelity.columns)]),
        "pair_scale": max([0.05, *(p.distance for p in fidelity.pairs)]),
        "worst_columns": fidelity.ranked[:WORST],
        "worst_pairs": [(p, *related.of(p.left, p.right)) for p in fidelity.worst_pairs[:WORST_PAIRS]],
        "squares": _squares(figures),
        "failed": [r for r in meta.checks if not r.passed],
        "units": units,
        "alone": not lines,
        **LIMITS,
        **({"lines": lines} if lines else {}),
    }


def _squares(figures: Figures) -> list[dict[str, Any]]:
    """Return what the page shows as a square of all pairs, each with the size at which its colour is deepest."""
    names, related = figures.relations.names, figures.relations
    distances = figures.fidelity.distances(names)
    return [
        {"title": "Distance", "cells": distances, "top": _largest(0.1, distances), "what": "distance"},
        {"title": "Relation, real", "cells": related.real, "top": 1.0, "what": "relation"},
        {"title": "Relation, synthetic", "cells": related.synthetic, "top": 1.0, "what": "relation"},
        {
            "title": "Relation, synthetic less real",
            "cells": related.difference,
            "top": _largest(0.2, related.difference),
            "what": "difference",
        },
    ]


def _largest(least: float, cells: list[list[float | None]]) -> float:
    return max([least, *(abs(v) for line in cells for v in line if v is not None)])


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
        note = f"{delta}one {meta.unit} is protected"
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

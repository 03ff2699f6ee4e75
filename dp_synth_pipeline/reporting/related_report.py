"""The fidelity report of related tables is one HTML page: first how they hang together, then each table as by itself.

It is restricted: it looks at real rows without noise, and says so at its top. It loads nothing from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.report import LIMITS, MOST_LINES, WORST, ReportMeta, table_facts
from dp_synth_pipeline.reporting.templates import render
from dp_synth_pipeline.validation.fidelity import ColumnFidelity, PairFidelity, badness
from dp_synth_pipeline.validation.related_figures import RelatedFigures

MOST_STEPS = 60
"""Columns of a history that have a line, the worst first."""

MOST_LINKS, MOST_TOGETHER, MOST_SQUARES = 6, 3, 12
"""Two tables whose columns are drawn beside each other; whose numbers of rows are; squares of (before, after) in all."""

SCALE = 0.05
"""The least distance that a full bar stands for."""


def render_related(figures: RelatedFigures, meta: ReportMeta) -> str:
    """Return the report as one self-contained HTML page without scripts that makes no request to any network.

    Args:
        figures: as `measure_related` returned them.
        meta: what to say about the release; its table is the database.
    """
    singles, pairs = _worst(figures.singles), _worst(figures.pairs)
    worst_links = sorted(figures.links, key=lambda link: link.mean[1] - link.mean[0])[:MOST_LINKS]
    lines = max(10, MOST_LINES // max(len(figures.tables), 1))
    return render(
        "related_report.html.j2",
        meta=meta,
        g=figures,
        verdict=wording.verdict(figures),
        rows=figures.rows,
        tables={name: Markup(_table(name, figures, lines)) for name in figures.tables},
        words={name: wording.verdict(found.fidelity)["word"] for name, found in figures.tables.items()},
        worst=[("Weakest by themselves", singles), ("Weakest together", pairs)],
        scale=max([SCALE, *(place.distance for _, place in (*singles, *pairs))]),
        steps=MOST_STEPS,
        squares=max(1, MOST_SQUARES // max(len(figures.histories), 1)),
        links=[link for link in figures.links if link in worst_links],
        together=sorted(figures.together, key=lambda both: badness(both.pair), reverse=True)[:MOST_TOGETHER],
        real=any(found.samples.real for found in figures.tables.values()),
        top="h2",
        **{name: LIMITS[name] for name in ("measure", "fewest", "most_numbers")},
    )


def _table(name: str, figures: RelatedFigures, lines: int) -> str:
    facts = table_facts(figures.tables[name], ReportMeta(name), lines=lines)
    return render("report_table.html.j2", **facts)


def _worst(places: Iterable[tuple[str, ColumnFidelity | PairFidelity]]) -> list[tuple[str, Any]]:
    return sorted(places, key=lambda place: badness(place[1]), reverse=True)[:WORST]

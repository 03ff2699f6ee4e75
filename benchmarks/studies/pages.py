"""Puts what the studies found into the documentation: figures between marks of a page, and charts as SVG files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import plotly.graph_objects as go

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/studies.md"
CHARTS = ROOT / "docs/studies"

GREY = {"dash": "dot", "color": "gray", "width": 1}
"""A line to compare with."""

MARK = re.compile(r"(<!-- from the study: ([^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def current(page: str, tables: Mapping[str, str]) -> str:
    """Return a page with the tables that it asks for as they are now; other parts stay as they are."""

    def filled(asked: re.Match[str]) -> str:
        return f"{asked[1]}\n{tables[asked[2]]}\n\n{asked[3]}" if asked[2] in tables else asked[0]

    return MARK.sub(filled, page)


def draw(figure: go.Figure, path: Path) -> None:
    """Write a chart as SVG; it needs kaleido.

    Raises:
        ValueError, ImportError: without kaleido, or without a browser that it can use.
    """
    legend = {"orientation": "h", "y": -0.25}
    figure.update_layout(template="simple_white", font={"size": 13}, legend=legend, margin={"t": 40, "l": 60, "r": 20})
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.write_image(path, width=figure.layout.width or 860, height=figure.layout.height or 420)

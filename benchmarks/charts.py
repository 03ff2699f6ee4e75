"""Charts of the benchmarks: one self-contained HTML file each, and a PNG beside it where a browser can draw one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.colors
import plotly.graph_objects as go
from plotly.subplots import make_subplots

HEIGHT = 420
PEERS = ("x", "diamond", "square", "triangle-up", "cross")


def save(figure: go.Figure, path: Path, height: int = HEIGHT) -> None:
    """Write a figure as HTML that needs no network, and as PNG if that works here."""
    figure.update_layout(template="simple_white", height=height, margin={"t": 60, "l": 60})
    figure.write_html(path, include_plotlyjs=True, full_html=True)
    with contextlib.suppress(Exception):  # kaleido or its browser is missing
        figure.write_image(path.with_suffix(".png"), width=1200, scale=2)


def growth(
    path: Path,
    axis: str,
    sizes: Sequence[float],
    seconds: Mapping[str, Sequence[Any]],
    memory: Mapping[str, Sequence[Any]],
) -> None:
    """Draw CPU seconds (on a logarithmic axis) and peak memory of each step against a size."""
    figure = make_subplots(1, 2, subplot_titles=("CPU seconds", "peak memory, MiB"))
    colors = dict(zip(seconds, _palette(len(seconds)), strict=True))
    for column, series in ((1, seconds), (2, memory)):
        for name, values in series.items():
            figure.add_scatter(
                x=sizes,
                y=values,
                name=name,
                legendgroup=name,
                showlegend=column == 1,
                mode="lines+markers",
                line_color=colors[name],
                row=1,
                col=column,
            )
        ticks = {"tickvals": list(sizes), "ticktext": [f"{s:,.0f}" for s in sizes]}
        figure.update_xaxes(type="log", title=axis, row=1, col=column, **ticks)
    figure.update_yaxes(type="log", dtick=1, row=1, col=1)
    figure.update_yaxes(rangemode="tozero", row=1, col=2)
    save(figure, path, height=HEIGHT + 80)


def lines(
    path: Path,
    x: str,
    panels: Mapping[str, str],
    series: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    log: bool = True,
    peers: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Draw one panel for each figure, one line for each series, and a dotted one for each peer.

    Args:
        x: the rows' key on the horizontal axis.
        panels: key of each figure to its title.
    """
    figure = make_subplots(1, len(panels), subplot_titles=list(panels.values()))
    colors = dict(zip(series, _palette(len(series)), strict=True))
    for column, figure_name in enumerate(panels, 1):
        for name, rows in series.items():
            figure.add_scatter(
                x=[r[x] for r in rows],
                y=[r[figure_name] for r in rows],
                name=name,
                legendgroup=name,
                showlegend=column == 1 and len(series) + len(peers) > 1,
                mode="lines+markers",
                line_color=colors[name],
                row=1,
                col=column,
            )
        for number, system in enumerate(dict.fromkeys(r["system"] for r in peers)):
            rows = sorted((r for r in peers if r["system"] == system), key=lambda r: r[x])
            figure.add_scatter(
                x=[r[x] for r in rows],
                y=[r[figure_name] for r in rows],
                name=system,
                legendgroup=system,
                showlegend=column == 1,
                mode="lines+markers",
                line={"dash": "dot", "width": 1, "color": "gray"},
                marker={"symbol": PEERS[number % len(PEERS)], "size": 9, "color": "gray"},
                row=1,
                col=column,
            )
        figure.update_xaxes(type="log" if log else "linear", title=x, row=1, col=column)
    save(figure, path)


def dots(path: Path, groups: Mapping[str, Sequence[Mapping[str, Any]]], panels: Mapping[str, str], base: Any) -> None:
    """Draw one row for each variant, grouped, one panel for each figure, and a line where the base lies."""
    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=list(panels.values()))
    colors = dict(zip(groups, _palette(len(groups)), strict=True))
    for column, name in enumerate(panels, 1):
        for group, rows in groups.items():
            figure.add_scatter(
                x=[r[name] for r in rows],
                y=[f"{group}: {r['variant']}" for r in rows],
                mode="markers",
                marker_color=colors[group],
                marker_size=10,
                name=group,
                legendgroup=group,
                showlegend=False,
                row=1,
                col=column,
            )
        if base is not None:
            figure.add_vline(x=base[name], line_dash="dot", row=1, col=column)  # type: ignore[arg-type]
    figure.update_yaxes(autorange="reversed")
    save(figure, path, height=140 + 22 * sum(len(rows) for rows in groups.values()))


def _palette(count: int) -> list[str]:
    named = plotly.colors.qualitative.T10 + plotly.colors.qualitative.Dark2
    return [named[i % len(named)] for i in range(count)]

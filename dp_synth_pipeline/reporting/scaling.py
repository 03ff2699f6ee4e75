"""Places figures in a drawing: shades of squares, heights and labels of bars, points of curves.

It computes no figure; `templates/figures.html.j2` draws what it returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dp_synth_pipeline.privacy.tradeoff import gaussian_true_positive
from dp_synth_pipeline.validation.binning import MISSING
from dp_synth_pipeline.validation.panels import Panel

SHADES = 9
"""Shades above the lightest, as `figures.css` has them."""

LABELS = 4
"""Labels under the bars of a number line, about."""

TOWER = 5
"""A bar of so many times the next one's height is cut, since it would hide all others."""

SIDE, POINTS = 240, 120
"""Side of the trade-off's square in pixels, and points of its curve, denser where it bends."""


def shade(value: float, top: float, power: float = 1.0) -> str:
    """Return the CSS classes of a cell: blue above 0, orange below, the stronger the nearer to `top`.

    Args:
        power: below 1, small values are told apart better.

    Example:
        >>> shade(0.5, 1.0), shade(-1.0, 1.0), shade(0.0, 1.0)
        ('up u4', 'less u9', 'up')
    """
    step = round(SHADES * min(abs(value) / max(top, 1e-12), 1.0) ** power)
    return ("less" if value < 0 else "up") + (f" u{step}" if step else "")


def brief(value: float) -> str:
    """Write a number from -1 to 1 in as few characters as two decimals take.

    Example:
        >>> brief(0.123), brief(-0.5), brief(1.0), brief(0.001)
        ('.12', '−.50', '1', '0')
    """
    text = f"{abs(value):.2f}"
    text = {"0.00": "0", "1.00": "1"}.get(text, text.removeprefix("0"))
    return f"\u2212{text}" if value < 0 and text != "0" else text


def points(share: float) -> str:
    """Write a share as percent without the sign, three digits at most.

    Example:
        >>> points(0.1234), points(0.0123), points(0.0001), points(0.0)
        ('12', '1.2', '<.1', '0')
    """
    percent = 100 * share
    if percent == 0:
        return "0"
    return "<.1" if percent < 0.1 else f"{percent:.1f}" if percent < 9.95 else f"{percent:.0f}"


def columns(panel: Panel) -> dict[str, Any]:
    """Return where the bars of a number line stand: `width` of the drawing, `bars`, `ticks`, `top` and what is `cut`."""
    heights = [max(pair) for pair in zip(panel.real, panel.synthetic, strict=True)]
    top, cut = max([*heights, 1e-9]), None
    others = sorted(heights)[:-1]
    if others and 0 < TOWER * others[-1] < top:
        cut, top = heights.index(top), 2 * others[-1]
    gap = 1 if panel.labels and panel.labels[-1] == MISSING else 0
    bars: list[dict[str, Any]] = [
        {
            "label": label,
            "real": p,
            "synthetic": q,
            "x": i + (gap if gap and i == len(heights) - 1 else 0),
            "high_real": round(100 * min(p / top, 1), 1),
            "high_synthetic": round(100 * min(q / top, 1), 1),
        }
        for i, (label, p, q) in enumerate(zip(panel.labels, panel.real, panel.synthetic, strict=True))
    ]
    width = max(len(bars) + gap, 4)  # so that two bars do not fill the panel
    spread = _spread(len(bars) - gap)
    shown = [*(i for i in spread if i < 0.8 * len(bars)), len(bars) - 1] if gap else spread
    ticks = [{"at": 100 * (bars[i]["x"] + 0.45) / width, "text": _clean(bars[i]["label"])} for i in shown]
    return {"width": width, "bars": bars, "ticks": ticks, "top": top, "cut": None if cut is None else bars[cut]}


def _spread(count: int) -> list[int]:
    """Return about `LABELS` places, evenly spread over so many bars."""
    every = max(1, -(-count // LABELS))
    return list(range(every // 2, count, every))


def _clean(label: str) -> str:
    """Shorten a bar's label to where it begins; of a date, to its month."""
    start = label.split(" to ")[0].replace("under ", "<").replace(" and over", "+")
    return start[:7] if start[4:5] == start[7:8] == "-" else start


def curve(trade_off: dict[str, Any]) -> dict[str, Any]:
    """Return the trade-off's bound as the path of a `line`, and its rates as `dots`, in pixels from the upper left corner.

    Args:
        trade_off: `mu`, `slack` and `rates`, as `privacy.tradeoff.TradeOff.figures` gives them; numbers only.
    """
    rates = [(i / POINTS) ** 3 for i in range(POINTS + 1)]
    reached = gaussian_true_positive(rates, float(trade_off["mu"]), float(trade_off["slack"]))
    line = [_place(x, float(y)) for x, y in zip(rates, reached, strict=True)]
    dots = [_place(float(r["false_positive"]), float(r["true_positive"])) for r in trade_off["rates"]]
    return {"line": "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in line), "dots": dots}


def losses(looks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return noisy losses as the path of a `line` and `dots` with the `reach` of two deviations, in pixels; None for none.

    Args:
        looks: each with its `step`, `loss` and `deviation`, in their order; public numbers only.
    """
    if not looks:
        return None
    low = min(look["loss"] - 2 * look["deviation"] for look in looks)
    high = max(look["loss"] + 2 * look["deviation"] for look in looks)
    tall, last = max(high - low, 1e-12), max(look["step"] for look in looks)
    dots = [_place(look["step"] / max(last, 1), (look["loss"] - low) / tall) for look in looks]
    reach = [round(SIDE * 2 * look["deviation"] / tall, 2) for look in looks]
    line = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in dots)
    return {"line": line, "dots": [(x, y, r) for (x, y), r in zip(dots, reach, strict=True)], "low": low, "high": high}


def _place(x: float, y: float) -> tuple[float, float]:
    return round(SIDE * x, 2), round(SIDE * (1 - y), 2)


FILTERS = (brief, columns, points, shade)
"""What templates call by its name."""

"""What a burn-down says while it is young."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from dp_synth_pipeline.reporting.burndown import drawing, layout
from dp_synth_pipeline.reporting.statement_page import render_statement

OPENED = datetime(2026, 3, 1, 9, tzinfo=UTC)


def after(**span: float) -> str:
    return (OPENED + timedelta(**span)).isoformat()


def history(left: float, **span: float) -> list[dict[str, Any]]:
    """Opened, and one release that left a share."""
    return [
        {"at": after(), "left_share": 1.0, "what": "opened"},
        {"at": after(**span), "left_share": left, "what": "release of visits"},
    ]


def test_one_release_on_the_first_day_is_a_step_in_the_left_half_and_what_still_fits_is_on_the_right() -> None:
    chart = layout(history(0.7, minutes=30), None, after(minutes=60))
    assert chart is not None
    assert chart["line"] == "M0 0H250V30H500"
    assert (chart["now"], chart["left"]["x"]) == (50, 50)
    assert chart["ahead"] == "M500 30H666.7V60H833.3V90H1000"  # two more fit, and a third does not
    assert all(tick["x"] <= 50 for tick in chart["ticks"])


def test_a_release_of_this_very_moment_is_a_step_and_no_dot() -> None:
    chart = layout(history(0.5, seconds=0), None, after())
    assert chart is not None
    assert chart["line"] == "M0 0H0V50H500"
    assert chart["ahead"] == "M500 50H750V100H1000"


def test_a_release_after_which_none_like_it_fits_has_nothing_ahead() -> None:
    chart = layout(history(0.4, hours=1), None, after(hours=2))
    assert chart is not None
    assert chart["ahead"] == ""


def test_what_is_planned_or_a_longer_history_says_more_than_a_guess() -> None:
    forecast = {"dates": [after(days=7)], "fits": 1, "first_refused": None}
    for chart in (
        layout(history(0.7, hours=1), forecast, after(hours=2)),
        layout(history(0.7, hours=1), None, after(days=5)),
    ):
        assert chart is not None
        assert chart["ahead"] == ""


def test_the_picture_and_the_page_draw_what_still_fits_and_say_what_it_is() -> None:
    chart = layout(history(0.7, minutes=30), None, after(minutes=60))
    assert chart is not None
    svg = drawing(chart, "ε 6")
    account = {"name": "people", "history": history(0.7, minutes=30)}
    page = render_statement({"accounts": [account], "generated_at": after(minutes=60)})
    for text in (svg, page):
        assert f'<path class="ahead" d="{chart["ahead"]}"/>' in text
        assert "further releases like the last" in re.sub(r"\s+", " ", text)

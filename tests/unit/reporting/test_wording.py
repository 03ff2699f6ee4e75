"""Numbers have the noun that they need, and what is poor is said with what would help."""

from __future__ import annotations

from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.synthesis.expected_quality import Quality

FAR = Quality(0.1, 0.2)


def test_one_thing_is_no_plural() -> None:
    assert [wording.counted(n, "account") for n in (0, 1, 2, 1000)] == [
        "0 accounts", "1 account", "2 accounts", "1,000 accounts",
    ]  # fmt: skip


def test_what_is_poor_is_said_with_each_way_that_would_help() -> None:
    assert "0.2, so that pairs of columns will be far off; 4 times the rows or ε 2 would bring" in wording.poor(
        FAR, 4, 2.0
    )
    assert "far off; 4 times the rows would bring" in wording.poor(FAR, 4, None)
    assert "far off; ε 0.5 would bring" in wording.poor(FAR, None, 0.5)
    assert "neither 100 times the rows nor any ε worth naming" in wording.poor(FAR, None, None)

"""What the command line says at the end of a run."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from dp_synth_pipeline.cli.summary import MOST_WARNINGS, Summary, quality, show

QUIET = Summary(
    table="visits",
    rows=100,
    columns=2,
    guarantee="dp",
    epsilon=1.0,
    delta=1e-6,
    epsilon_added=1.0,
    account="a",
    epsilon_left=2.0,
    entries=[],
    checks={"passed": 8, "failed": 0},
    warnings=[],
    regenerated=[],
    seconds={"train": 1.0},
    outputs=dict.fromkeys(("published", "synthetic", "checks", "release_card", "report"), "/there/file"),
    run_id="r",
)


def said(summary: Summary) -> str:
    written = io.StringIO()
    show([summary], Console(file=written, width=120))
    return written.getvalue()


def test_failed_checks_are_told_in_words_and_only_the_first_few() -> None:
    assert "check failed" not in said(QUIET)
    warned = said(replace(QUIET, warnings=["age should have [values]."]))
    assert "check failed age should have [values]." in warned
    assert "more" not in warned.split("check failed")[1]
    many = said(replace(QUIET, warnings=[f"w{i}." for i in range(MOST_WARNINGS + 3)]))
    assert f"w{MOST_WARNINGS - 1}." in many
    assert f"w{MOST_WARNINGS}." not in many
    assert "and 3 more" in many


def test_what_a_release_added_is_told_where_its_table_builds_upon_more() -> None:
    assert "added" not in said(QUIET)
    assert "ε = 0.750 was added by this release" in said(replace(QUIET, epsilon_added=0.75))


def test_brackets_in_names_and_paths_are_told_as_they_are() -> None:
    odd = "/there/[/x]/[red]file[/]"
    outputs = dict.fromkeys(QUIET.outputs, odd)
    told = said(
        replace(QUIET, table="visits [/min]", outputs=outputs, warnings=["pulse [/min] should have values."] * 9)
    )
    assert told.count(odd) == 5  # four outputs, and where the other warnings are
    assert told.count("visits [/min]") == 2
    assert "check failed pulse [/min] should have values." in told


@pytest.mark.parametrize(
    ("headline", "words"),
    [
        (
            {"verdict": "fair", "tables": {"patients": "good", "visits": "fair"}},
            "by themselves: patients good, visits fair",
        ),
        ({"verdict": "good", "accuracy": 0.97, "best": 0.98, "told_apart": None}, "accuracy 97.0%"),
    ],
)
def test_the_restricted_verdict_is_told_on_a_terminal_alone(tmp_path, headline, words) -> None:
    page = tmp_path / "quality_report.html"
    page.with_suffix(".headline").write_text(json.dumps(headline))
    (told,) = quality(str(page), Console(force_terminal=True))
    assert words in told
    assert "not differentially private" in told
    assert quality(str(page), Console(force_terminal=False)) == []

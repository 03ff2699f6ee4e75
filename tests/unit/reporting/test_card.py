"""The release card."""

from __future__ import annotations

import dataclasses
import json
import re
from html import unescape

import pytest
from markdown_it import MarkdownIt

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.card import (
    LIMITS,
    CardFacts,
    ReleaseCard,
    from_json,
    to_json,
)
from dp_synth_pipeline.reporting.card_pages import render_card, render_markdown

EVENTS = (
    DiscreteLaplace(40.0),
    DiscreteGaussian(62.5, 4, 24),
    Threshold(1e-7),
    Gaussian(3.0),
    SubsampledGaussian(3.2, 0.01, 640),
)
FACTS = CardFacts(
    table="clinic_visits",
    created="2026-01-01T00:00:00Z",
    rows=20_000,
    columns=12,
    epsilon=2.5,
    delta=1e-5,
    unit="patient_id",
    unit_max_rows=4,
    account="clinic",
    account_epsilon=6.0,
    account_delta=1e-5,
    account_spent_epsilon=4.0,
    account_left="epsilon 2.0",
    mechanisms=[{"stage": "profile", "entry": f"entry-{i}", "event": e.to_dict()} for i, e in enumerate(EVENTS)],
    public=[
        {"name": "<script>alert(1)</script>", "storage": "int64", "kind": "integer", "declared": {"lower": 0}},
        {"name": "sector", "storage": "string", "kind": "category", "declared": {"categories": ["north", "south"]}},
    ],
    checks=[{"name": "row_count", "passed": True, "blocking": True, "description": "The table has 20,000 rows."}],
    code_version="0.1.0",
    run_id="run-1",
    ledger_head="head-1",
    limits=["Rows after 2020 are missing."],
)
CARD = ReleaseCard(FACTS)


def test_the_card_reads_back_from_its_json() -> None:
    assert from_json(to_json(CARD)) == CARD


def test_the_json_holds_what_follows_from_the_facts() -> None:
    facts = json.loads(to_json(CARD))
    assert facts["releasable"] is True
    assert "level" not in facts["derived"]
    assert facts["derived"]["odds_bound"] == pytest.approx(12.18, abs=0.01)
    assert facts["derived"]["checks_passed"] == 1


def test_the_page_shows_every_fact_a_reader_needs() -> None:
    html = render_card(CARD)
    needed = [
        "clinic_visits",
        "patient_id",
        "add-remove",
        "ε = 2.5",
        "10⁻⁵",
        "20,000",
        "entry-4",
        "640",
        "north, south",
    ]
    needed += [
        "run-1",
        "head-1",
        "0.1.0",
        "Rows after 2020 are missing.",
        "epsilon 2.0",
        "guesses right with a probability of at most 92.5 %",
    ]
    for text in needed:
        assert text in html


def test_the_page_states_the_limits_in_plain_words() -> None:
    now = ReleaseCard(dataclasses.replace(CARD.facts, added_epsilon=1.0, added_delta=1e-6))
    html = render_card(now)
    assert "measured with noise and charged" in html
    assert "its reservation stays held" in html
    assert len(now.limits) == len(LIMITS) + 1


def test_a_card_of_the_first_format_states_the_limits_of_its_own_version() -> None:
    html = render_card(CARD)
    assert "The noise of training is drawn in floating point" in html
    assert "the types detected in it" in html
    assert "measured with noise and charged" not in html


def test_the_page_has_no_script_and_loads_nothing() -> None:
    html = render_card(CARD)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", html)


def test_a_bare_card_is_still_a_card() -> None:
    bare = ReleaseCard(CardFacts("t", "now", 10, 2, 1.0, 1e-6))
    assert "Nothing else was declared" in render_card(bare)
    assert from_json(to_json(bare)) == bare


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), -1.0, 0.0])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput, match="finite epsilon"):
        ReleaseCard(dataclasses.replace(FACTS, epsilon=epsilon))


def test_a_mechanism_without_its_entry_is_refused() -> None:
    with pytest.raises(InvalidInput, match="entry is missing"):
        ReleaseCard(dataclasses.replace(FACTS, mechanisms=[{"stage": "profile", "event": EVENTS[0].to_dict()}]))


@pytest.mark.parametrize("text", ["not json", "[]", '{"format": "other"}'])
def test_what_is_not_a_card_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="export the card again"):
        from_json(text)


@pytest.mark.parametrize(
    ("epsilon", "right"),
    [
        (2.51, "guesses right with a probability of at most 92.5 %"),
        (6.0, "guesses right with a probability of at most 99.8 %"),
        (8.0, "may become all but certain"),
        (2000.0, "may become all but certain"),
    ],
)
def test_the_meaning_of_any_epsilon_is_what_an_attacker_reaches_and_no_level_of_our_own(
    epsilon: float, right: str
) -> None:
    said = wording.meaning(epsilon, 1e-5, "row")
    assert said.endswith(f"someone who was half sure {right}.")
    assert " protection" not in said


@pytest.mark.parametrize(
    ("epsilon", "told"),
    [
        (3.01, "ε = 3.01. e\\^ε is 20.3, and by ε and δ = 10⁻⁵ alone, .* of at most 95.4 %"),
        (15.0, "may become all but certain"),
        (2000.0, "ε = 2000. e\\^ε is inf, .* all but certain"),
    ],
)
def test_a_large_epsilon_is_said_aloud_with_what_an_attacker_reaches(epsilon: float, told: str) -> None:
    said = wording.large("Account a", epsilon, 1e-5)
    assert said.startswith("Account a has a large budget: ")
    assert re.search(told, said)
    assert "protection" not in said  # beside what an attacker reaches, a word for it would contradict it


def test_an_epsilon_that_is_not_large_is_not_commented() -> None:
    assert wording.large("Account a", wording.HIGH, 1e-5) == ""


def test_shown_bounds_are_never_below_the_real_ones() -> None:
    for x in (2.49731, 0.1 + 0.2, 12.149, 1e-7 * 1.23456, 3.0, 99999.5):
        shown = wording.at_most(x)
        value = float(shown.replace(",", "")) if " " not in shown else None
        assert value is None or value >= x - 1e-9


def test_every_event_has_words() -> None:
    for event in EVENTS:
        assert wording.mechanism(event.to_dict()).endswith(".")


PURPOSE = {
    "contact": "data@example.org",
    "intended_use": ["Planning <of> a study."],
    "out_of_scope": ["Single people."],
}


@pytest.mark.parametrize("rendered", [render_card, render_markdown])
def test_a_card_says_what_its_table_is_for_what_not_and_whom_to_ask(rendered) -> None:
    told = unescape(rendered(ReleaseCard(dataclasses.replace(FACTS, **PURPOSE)))).replace("\\", "")
    for text in (
        "What it is for",
        "What it is not for",
        "data@example.org",
        "Planning <of> a study.",
        "Single people.",
    ):
        assert text in told
    assert "What it is" not in rendered(CARD)


@pytest.mark.parametrize("rendered", [render_card, render_markdown])
def test_a_card_without_a_quality_figure_says_why_and_how_to_get_one(rendered) -> None:
    told = unescape(rendered(CARD)).replace("\\", "")
    assert "No quality figure stands here, because none was charged" in told
    assert "validation: {report_epsilon: 0.05}" in told
    assert ("<code>validation" in told) == (rendered is render_card)
    public = CardFacts("t", "2026", 10, 2, None, None, guarantee="none", public_by="Ana", public_why="open data")
    assert "nothing is charged for a public source" in rendered(ReleaseCard(public))
    figures = {"accuracy_one": 0.9, "accuracy_one_within": 0.001, "accuracy_one_best": 0.95}
    charged = ReleaseCard(dataclasses.replace(FACTS, accuracy=figures))
    assert "No quality figure" not in rendered(charged)
    assert json.loads(to_json(charged))["derived"]["quality"] == ""


def test_the_markdown_is_read_as_tables_and_lists_by_a_markdown_reader() -> None:
    facts = dataclasses.replace(FACTS, **PURPOSE, description="a | b <i> *c*")
    html = MarkdownIt("commonmark").enable("table").render(render_markdown(ReleaseCard(facts)))
    assert html.count("<h1>") == 1
    assert html.count("<table>") == 4
    assert "| ---" not in unescape(html)
    assert "|---" not in html
    shown = unescape(re.sub(r"<[^>]*>", "", html))
    assert "a | b <i> *c*" in shown
    assert "<script>alert(1)</script>" in shown


def test_a_page_can_be_read_without_seeing_it() -> None:
    html = render_card(ReleaseCard(dataclasses.replace(FACTS, **PURPOSE)))
    assert html.count("<h1") == 1
    assert all('scope="' in th for th in re.findall(r"<th(?!ead)[^>]*>", html))
    assert len(html.encode()) < 2_000_000

"""The release card."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

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
from dp_synth_pipeline.reporting.card_pages import render_card

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
    source_fingerprint="hmac-1",
    ledger_head="head-1",
    limits=["Rows after 2020 are missing."],
)
CARD = ReleaseCard(FACTS)


def test_the_card_reads_back_from_its_json() -> None:
    assert from_json(to_json(CARD)) == CARD


def test_the_json_holds_what_follows_from_the_facts() -> None:
    facts = json.loads(to_json(CARD))
    assert facts["releasable"] is True
    assert facts["derived"]["level"] == "high"
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
    needed += ["run-1", "hmac-1", "head-1", "0.1.0", "Rows after 2020 are missing.", "epsilon 2.0", "High protection"]
    for text in needed:
        assert text in html


def test_the_page_states_the_limits_in_plain_words() -> None:
    html = render_card(CARD)
    assert "floating point" in html
    assert "types detected" in html
    assert "refused" in html
    assert len(CARD.limits) == len(LIMITS) + 1


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


@pytest.mark.parametrize(("epsilon", "word"), [(2.51, "High"), (8.0, "Medium"), (20.0, "Low"), (2000.0, "Low")])
def test_the_meaning_of_any_epsilon_can_be_said(epsilon: float, word: str) -> None:
    assert wording.meaning(epsilon, 1e-5, "row").startswith(f"{word} protection")


def test_shown_bounds_are_never_below_the_real_ones() -> None:
    for x in (2.49731, 0.1 + 0.2, 12.149, 1e-7 * 1.23456, 3.0, 99999.5):
        shown = wording.at_most(x)
        value = float(shown.replace(",", "")) if " " not in shown else None
        assert value is None or value >= x - 1e-9


def test_every_event_has_words() -> None:
    for event in EVENTS:
        assert wording.mechanism(event.to_dict()).endswith(".")

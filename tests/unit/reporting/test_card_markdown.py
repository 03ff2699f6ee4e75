"""The release card as Markdown, and the seal over its JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting.card import (
    CardFacts,
    ReleaseCard,
    content,
    from_json,
    to_json,
)
from dp_synth_pipeline.reporting.card_pages import render_card, render_markdown
from dp_synth_pipeline.reporting.templates import code, markdown
from tests.unit.reporting.test_card import CARD, FACTS


def test_the_markdown_card_holds_every_fact_a_reader_needs() -> None:
    facts = {"release": "release-7", "software": "dp-synth-pipeline 0.1.0", "table_sha256": "ab12", "seal": "cd34"}
    told = render_markdown(ReleaseCard(dataclasses.replace(FACTS, **facts)))
    needed = [
        "clinic\\_visits",
        "patient\\_id, at most 4",
        "add-remove",
        "ε = 2.5",
        "10⁻⁵",
        "guesses right with a probability of at most",
    ]
    needed += ["e^ε = 12.2", "limit ε = 6", "ε = 4, this release included", "entry-4", "steps = 640", "north, south"]
    needed += ["run-1", "head-1", "0.1.0", "Rows after 2020 are missing.", *facts.values(), "20,000"]
    assert [text for text in needed if text not in told] == []


def test_what_people_wrote_cannot_become_markup() -> None:
    evil = "x`y|z <img src=a onerror=b> [link](http://a) *b* # c\n\n# heading"
    facts = dataclasses.replace(FACTS, table=evil, description=evil, run_id=evil, account=evil, limits=[evil])
    told = render_markdown(ReleaseCard(facts))
    assert "<img" not in told.replace("\\<img", "").replace(code(evil), "")
    assert "](http" not in told.replace("\\](http", "").replace(code(evil), "")
    assert "\n# heading" not in told
    rows = [line for line in told.splitlines() if line.startswith("| Run ")]
    assert rows[0].count("|") == 3


@pytest.mark.parametrize(("text", "shown"), [("a_b|c", "a\\_b\\|c"), ("two\nlines", "two lines")])
def test_markdown_shows_a_text_as_it_is(text: str, shown: str) -> None:
    assert markdown(text) == shown


def test_the_page_shows_the_seal_and_the_digest_of_the_published_file() -> None:
    html = render_card(ReleaseCard(dataclasses.replace(FACTS, table_sha256="ab12", seal="cd34", release="release-7")))
    assert all(text in html for text in ("ab12", "cd34", "release-7", "e<sup>ε</sup> = 12.2"))


def test_a_seal_is_made_over_everything_but_itself() -> None:
    sealed = CARD.sealed(lambda text: f"key of {len(text)}")
    assert content(to_json(sealed)) == content(to_json(CARD))
    assert sealed.facts.seal.startswith("key of")
    edited = json.loads(to_json(sealed))
    edited["derived"]["checks_passed"] = 99
    assert content(json.dumps(edited)) != content(to_json(sealed))


def test_a_later_version_reads_the_same_content_from_an_old_card() -> None:
    older = json.loads(to_json(CARD))
    older["derived"]["limits"] = ["worded otherwise, once"]
    del older["software"]
    text = json.dumps(older)
    assert from_json(text).facts.software == ""
    assert "worded otherwise, once" in content(text)
    assert "software" not in content(text)


def test_a_card_that_says_a_thing_twice_is_refused() -> None:
    text = to_json(CARD).replace('"epsilon": 2.5,', '"epsilon": 0.1, "epsilon": 2.5,', 1)
    with pytest.raises(InvalidInput, match="twice"):
        from_json(text)


@pytest.mark.parametrize("change", [{"rows": None}, {"mechanisms": None}, {"epsilon": "2"}])
def test_a_card_with_a_field_of_another_kind_is_no_card(change: dict) -> None:
    with pytest.raises(InvalidInput):
        render_card(from_json(json.dumps(json.loads(to_json(CARD)) | change)))


def test_a_card_without_a_guarantee_names_who_declared_it_and_no_epsilon() -> None:
    facts = CardFacts("t", "2026", 10, 2, None, None, guarantee="none", public_by="Ana", public_why="open data")
    for told in (render_markdown(ReleaseCard(facts)), render_card(ReleaseCard(facts))):
        assert "NO PRIVACY GUARANTEE" in told
        assert "declared public by Ana" in told or "Declared public by Ana" in told
        assert "ε" not in told

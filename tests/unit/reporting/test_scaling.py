"""Where figures stand in a drawing, and the picture of the trade-off, which says in words what it shows."""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as ET

import pytest

from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.tradeoff import TradeOff, gaussian_true_positive
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.card import ReleaseCard, to_json
from dp_synth_pipeline.reporting.card_pages import render_card, render_markdown
from dp_synth_pipeline.reporting.scaling import SIDE, columns, curve, shade
from dp_synth_pipeline.validation.panels import Panel
from tests.unit.reporting.test_card import FACTS

FIGURES = TradeOff.of(Gaussian(2.0), accountant.epsilon(Gaussian(2.0), 1e-5)).figures(1e-5)


def picture() -> str:
    found = re.search(r"<svg.*?</svg>", render_card(card()), flags=re.S)
    assert found is not None
    return found[0]


def test_the_picture_is_whole_named_and_within_its_frame() -> None:
    drawn = ET.fromstring(picture())
    assert drawn.attrib["role"] == "img"
    title = drawn.find("title")
    assert title is not None
    assert title.attrib["id"] == drawn.attrib["aria-labelledby"]
    assert title.text is not None
    assert title.text.count(" % at ") == len(FIGURES["rates"])
    line = next(p for p in drawn.iter("path") if p.attrib["class"] == "line")
    points = [tuple(map(float, xy.split())) for xy in line.attrib["d"].lstrip("M").split("L")]
    assert all(0 <= x <= SIDE and 0 <= y <= SIDE for x, y in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True), "it only rises"


def test_no_dot_lies_above_the_line() -> None:
    rates = FIGURES["rates"]
    line = gaussian_true_positive([r["false_positive"] for r in rates], FIGURES["mu"], FIGURES["slack"])
    assert all(r["true_positive"] <= bound for r, bound in zip(rates, line, strict=True))
    assert len(curve(FIGURES)["dots"]) == picture().count("<circle") == len(rates)


def test_a_shade_is_deeper_for_more_and_orange_below_zero() -> None:
    assert [shade(v, 2.0) for v in (0.0, 1.0, 2.0, 9.0, -2.0)] == ["up", "up u4", "up u9", "up u9", "less u9"]
    assert shade(0.25, 1.0, 0.5) == "up u4"
    assert shade(0.0, 0.0) == "up"


def bars(real: list[float], synthetic: list[float], labels: list[str] | None = None) -> dict:
    return columns(
        Panel("x", "decimal", 0.0, False, labels or [f"{i} to {i + 1}" for i in range(len(real))], real, synthetic)
    )


def test_a_towering_bar_is_cut_and_told_and_none_is_higher_than_the_drawing() -> None:
    found = bars([0.02, 0.9, 0.05, 0.03], [0.02, 0.88, 0.04, 0.06])
    assert found["cut"]["label"] == "1 to 2"
    assert found["top"] == pytest.approx(0.12)
    assert max(max(b["high_real"], b["high_synthetic"]) for b in found["bars"]) == 100
    assert found["bars"][3]["high_synthetic"] == 50
    assert bars([0.3, 0.7], [0.5, 0.5])["cut"] is None


def test_missing_stands_apart_and_no_label_runs_into_it() -> None:
    found = bars([0.04] * 25, [0.04] * 25, [*(f"{i} to {i + 1}" for i in range(24)), "missing"])
    assert found["bars"][-1]["x"] - found["bars"][-2]["x"] == 2
    assert found["ticks"][-1]["text"] == "missing"
    assert found["ticks"][-2]["at"] < 80
    assert bars([], [])["bars"] == []


def test_a_date_is_labelled_by_its_month() -> None:
    labels = ["2024-01-01 to 2024-01-31", "2024-02-01 to 2024-02-28"]
    assert [t["text"] for t in bars([0.5, 0.5], [0.5, 0.5], labels)["ticks"]] == ["2024-01", "2024-02"]


def card(**changes) -> ReleaseCard:
    whole = {"added_epsilon": FACTS.epsilon, "added_delta": FACTS.delta, "trade_off": FIGURES, "population": 1000}
    return ReleaseCard(dataclasses.replace(FACTS, **{**whole, **changes}))


@pytest.mark.parametrize("rendered", [render_card, render_markdown])
def test_a_card_shows_rates_mu_and_delta_beside_the_units(rendered) -> None:
    text = rendered(card())
    assert "What an attacker can reach" in text
    for rate in FIGURES["rates"]:
        assert wording.at_most_percent(rate["true_positive"]) in text
    assert wording.at_most(FIGURES["mu"]) in text
    assert "δ times the number of privacy units, about 1,000," in text
    assert "://" not in text


def test_a_card_without_a_trade_off_shows_none() -> None:
    text = render_card(ReleaseCard(FACTS))
    assert "What an attacker can reach" not in text
    assert "<svg" not in text


@pytest.mark.parametrize("rendered", [render_card, render_markdown])
def test_a_card_answers_how_often_a_guess_is_right_once_and_by_its_own_trade_off_where_that_is_known(rendered) -> None:
    half_sure, guess = "omeone who was half sure guesses right", wording.at_most_percent(FIGURES["right_guess"])
    known, unknown = rendered(card()), rendered(ReleaseCard(FACTS))
    assert known.count(f"Someone who was half sure guesses right with a probability of at most {guess}.") == 1
    assert known.count("guesses right") == unknown.count("guesses right") == 1
    assert f"By ε and δ alone, s{half_sure}" in unknown
    assert "alone, s" not in known


def test_the_json_says_in_words_what_the_figures_say() -> None:
    derived = json.loads(to_json(card()))["derived"]
    assert derived["statements"] == [*wording.trade_off(FIGURES), wording.delta_times(FACTS.delta or 0, 1000)]


def test_an_account_whose_delta_is_no_promise_for_so_many_units_is_told() -> None:
    large = card(account_delta=1e-5, population=200_000)
    assert any("is 2, which is not below 1" in limit for limit in large.limits)
    assert not any("is not below 1" in limit for limit in card(account_delta=1e-5, population=50_000).limits)


def test_the_meaning_is_that_of_the_definition() -> None:
    """'At most a factor e^epsilon, except with a probability of about delta' is false of most mechanisms."""
    said = wording.meaning(1.0, 1e-5, "row")
    assert "except with" not in said
    assert "at most 2.72 times the probability, plus 10⁻⁵" in said
    assert "at most 73.2 %" in said, "(e + delta) / (1 + e), rounded up"
    assert wording.meaning(800.0, 1e-5, "row").endswith("may become all but certain.")

"""The audit of a card's own training, on its pages and in its JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.audit import Audit, Observed
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from dp_synth_pipeline.reporting import card_pages, scaling
from dp_synth_pipeline.reporting.card import ReleaseCard, from_json, to_json
from tests.unit.reporting.test_card import CARD, FACTS

SEEN = Observed(640, 25_000, 25_000 * 3.2**2, 24_000, 0.0, 512, 3280, 512 * 6.4, 1.0, 0.0)


def audited(seen: Observed = SEEN) -> ReleaseCard:
    findings = json.loads(Audit.of(seen, 3.2, 0.01).to_json())["findings"]
    return ReleaseCard(dataclasses.replace(FACTS, audit=findings))


@pytest.mark.parametrize("render", [card_pages.render_card, card_pages.render_markdown])
def test_both_pages_show_what_was_charged_measured_and_how_well_it_is_known(render) -> None:
    told = render(audited())
    noise, rate, norm = audited().facts.audit
    assert "What training was seen to do" in told
    assert "10⁻⁶" in told
    for finding, title in ((noise, "Noise multiplier"), (rate, "Sampling rate"), (norm, "Largest norm")):
        assert title in told
        assert f"{finding['low']:.4g} to {finding['high']:.4g}" in told
        assert f"{finding['measured']:.4g}" in told
    assert "FAILED" not in told.upper()


@pytest.mark.parametrize("render", [card_pages.render_card, card_pages.render_markdown])
def test_a_release_without_a_noisy_step_has_no_such_section(render) -> None:
    assert "What training was seen to do" not in render(CARD)


def test_the_findings_are_in_the_json_and_read_back() -> None:
    facts = json.loads(to_json(audited()))
    assert [a["name"] for a in facts["audit"]] == ["audit_noise", "audit_sampling", "audit_clipping"]
    assert from_json(to_json(audited())) == audited()


def test_a_card_of_an_earlier_version_has_no_findings_and_still_reads() -> None:
    facts = json.loads(to_json(CARD))
    del facts["audit"]
    assert from_json(json.dumps(facts)).facts.audit == []


def test_a_finding_that_failed_is_marked_and_one_that_is_not_finite_is_unknown() -> None:
    halved = dataclasses.replace(SEEN, squares=SEEN.squares / 4, clipped=float("inf"))
    page, text = card_pages.render_card(audited(halved)), card_pages.render_markdown(audited(halved))
    assert page.count('<span class="pill fail">failed</span>') == 2
    assert text.count("**FAILED**") == 2
    assert "unknown" in page


def test_a_finding_that_lacks_its_interval_is_refused() -> None:
    broken = [{k: v for k, v in audited().facts.audit[0].items() if k != "low"}]
    with pytest.raises(InvalidInput, match=r"finding .* low is missing"):
        ReleaseCard(dataclasses.replace(FACTS, audit=broken))


ATTACK = {
    "release": "r-17",
    "passed": True,
    "claimed": 2.0,
    "epsilon": 1.9,
    "ratio": 0.95,
    "delta": 1e-5,
    "confidence": 0.95,
}


def attacked(**changes: object) -> ReleaseCard:
    return ReleaseCard(dataclasses.replace(audited().facts, one_run_audit=ATTACK | changes))


@pytest.mark.parametrize("render", [card_pages.render_card, card_pages.render_markdown])
def test_both_pages_say_what_the_last_one_run_audit_proved_and_of_which_release(render) -> None:
    told = render(attacked()).replace("\\", "")
    for words in ("release r-17", "at least 1.9", "where 2 is claimed", "10⁻⁵", "95% of it"):
        assert words in told
    assert "FAILED" not in told
    assert "It FAILED." in render(attacked(passed=False))
    assert "one-run audit" not in render(audited())


def test_a_one_run_audit_is_in_the_json_and_one_that_lacks_a_figure_is_refused() -> None:
    assert from_json(to_json(attacked())) == attacked()
    with pytest.raises(InvalidInput, match="ratio is missing"):
        ReleaseCard(dataclasses.replace(FACTS, one_run_audit={k: v for k, v in ATTACK.items() if k != "ratio"}))


LOOKS = [
    {"step": 200, "loss": 12.3456, "deviation": 0.25},
    {"step": 1400, "loss": 9.8765, "deviation": 0.25},
]


def converged(looks: list[dict[str, float]] = LOOKS, charged: int = 2) -> ReleaseCard:
    paid = {"stage": "looks", "entry": "e-9", "event": SubsampledGaussian(20.0, 1.0, charged).to_dict()}
    return ReleaseCard(dataclasses.replace(FACTS, mechanisms=[*FACTS.mechanisms, paid], looks=looks))


@pytest.mark.parametrize("render", [card_pages.render_card, card_pages.render_markdown])
def test_both_pages_show_the_losses_that_were_paid_for(render) -> None:
    told = render(converged())
    for words in ("How training converged", "12.35", "9.877", "1,400", "0.25"):
        assert words in told
    assert "How training converged" not in render(CARD)


def test_the_curve_of_losses_goes_through_each_with_two_deviations_of_noise() -> None:
    drawn = scaling.losses(LOOKS)
    assert drawn is not None
    (x0, y0, reach), (x1, y1, _) = drawn["dots"]
    assert (x0, x1) == (round(240 / 7, 2), 240)
    assert (y0 - reach, y1 + reach) == (pytest.approx(0, abs=0.01), pytest.approx(240, abs=0.01))
    assert scaling.losses([]) is None


def test_a_card_shows_no_loss_that_was_not_charged_and_reads_back_with_those_that_were() -> None:
    assert from_json(to_json(converged())) == converged()
    with pytest.raises(InvalidInput, match="looks at the loss that were charged for"):
        converged(charged=1)
    with pytest.raises(InvalidInput, match="deviation is missing"):
        converged([{"step": 200, "loss": 1.0}])


def test_a_card_without_losses_is_as_those_of_earlier_versions() -> None:
    assert "looks" not in json.loads(to_json(CARD))
    assert from_json(to_json(CARD)).facts.looks == []

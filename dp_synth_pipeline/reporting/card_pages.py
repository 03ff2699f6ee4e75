"""Renders the release card for people, as HTML and Markdown. What is on it, and its JSON, are in `card`."""

from __future__ import annotations

import math
from typing import Any

from dp_synth_pipeline.privacy import audit
from dp_synth_pipeline.reporting import scaling, wording
from dp_synth_pipeline.reporting.card import CardFacts, ReleaseCard
from dp_synth_pipeline.reporting.templates import render

MEASURED = dict(zip(audit.NAMES, ("Noise multiplier", "Sampling rate", "Largest norm, in clip norms"), strict=True))
"""What each finding of an audit measured, in a few words."""


def render_card(card: ReleaseCard) -> str:
    """Return the card as one small HTML page without scripts that makes no request to any network."""
    return _rendered("card.html.j2", card)


def render_markdown(card: ReleaseCard) -> str:
    """Return the card as Markdown, for a repository, a catalogue or a pull request; every value is escaped."""
    return _rendered("card.md.j2", card)


def _rendered(template: str, card: ReleaseCard) -> str:
    f = card.facts
    return render(
        template,
        card=card,
        f=f,
        odds=None if f.epsilon is None else wording.odds_bound(f.epsilon),
        tone="poor" if f.epsilon is None else "promise",
        mechanisms=[_explained(m) for m in f.mechanisms],
        reused=[(release, [_explained(m) for m in group]) for release, group in _by_release(f)],
        declared=[c for c in f.public if c["declared"]],
        failed=[c for c in f.checks if not c["passed"]],
        meter=_meter(f),
        audited=[_audited(a) for a in f.audit],
        alpha=audit.ALPHA,
        attacked=_attacked(f.one_run_audit),
        curve=scaling.curve(f.trade_off) if f.trade_off else None,
        loss=scaling.losses(f.looks),
    )


def _by_release(f: CardFacts) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the reused mechanisms by the release that was charged for them; a card of the first format names one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for mechanism in f.reused:
        groups.setdefault(mechanism.get("release") or f.reused_from, []).append(mechanism)
    return list(groups.items())


def _explained(mechanism: dict[str, Any]) -> dict[str, Any]:
    event, planned = mechanism["event"], mechanism.get("planned")
    words = wording.mechanism(event)
    if planned is not None:
        words += f" Stopped early; it counts as it was planned, with {planned.get('steps'):,} steps."
    return {**mechanism, "words": words, "parameters": _parameters(event)}


def _audited(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a finding in the words of a page: what was charged, what was measured, and how well that is known."""
    numbers = {k: _measurement(finding[k]) for k in ("claimed", "measured", "low", "high")}
    return {**finding, **numbers, "title": MEASURED.get(finding["name"], finding["name"])}


def _attacked(outcome: dict[str, Any]) -> str:
    """Say what the last one-run audit proved, and of which release's plan; empty if there was none."""
    if not outcome:
        return ""
    verdict = "" if outcome["passed"] else " It FAILED."
    return (
        f"The last one-run audit attacked a training by the plan of release {outcome['release']}, on made-up rows. It "
        f"proved an epsilon of at least {outcome['epsilon']:.3g}, with a confidence of {outcome['confidence']:.0%}, where "
        f"{outcome['claimed']:.3g} is claimed for training at delta {wording.scientific(outcome['delta'])}: "
        f"{outcome['ratio']:.0%} of it.{verdict}"
    )


def _measurement(value: float | None) -> str:
    """Write a measured number to four digits; one that was not finite is null in the audit's own file."""
    return "unknown" if value is None else wording.scientific(value)


def _parameters(event: dict[str, Any]) -> str:
    return ", ".join(f"{k} = {_number(v)}" for k, v in event.items() if k != "kind")


def _number(value: Any) -> str:
    return wording.scientific(value) if isinstance(value, float) else str(value)


def _meter(f: CardFacts) -> float | None:
    """Return the used share of the account, in percent; None for a card that an earlier version wrote."""
    return None if f.account_used is None else math.ceil(1000 * f.account_used) / 10

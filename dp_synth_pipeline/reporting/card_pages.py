"""Renders the release card for people, as HTML and Markdown. What is on it, and its JSON, are in `card`."""

from __future__ import annotations

from typing import Any

from dp_synth_pipeline.privacy import audit
from dp_synth_pipeline.privacy.budget import level
from dp_synth_pipeline.reporting import wording
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
        tone="poor" if f.epsilon is None else {"high": "good", "medium": "fair", "low": "poor"}[level(f.epsilon)],
        mechanisms=[_explained(m) for m in f.mechanisms],
        reused=[_explained(m) for m in f.reused],
        declared=[c for c in f.public if c["declared"]],
        failed=[c for c in f.checks if not c["passed"]],
        meter=_meter(f),
        audited=[_audited(a) for a in f.audit],
        alpha=audit.ALPHA,
    )


def _explained(mechanism: dict[str, Any]) -> dict[str, Any]:
    event = mechanism["event"]
    return {**mechanism, "words": wording.mechanism(event), "parameters": _parameters(event)}


def _audited(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a finding in the words of a page: what was charged, what was measured, and how well that is known."""
    numbers = {k: _measurement(finding[k]) for k in ("claimed", "measured", "low", "high")}
    return {**finding, **numbers, "title": MEASURED.get(finding["name"], finding["name"])}


def _measurement(value: float | None) -> str:
    """Write a measured number to four digits; one that was not finite is null in the audit's own file."""
    return "unknown" if value is None else wording.scientific(value)


def _parameters(event: dict[str, Any]) -> str:
    return ", ".join(f"{k} = {_number(v)}" for k, v in event.items() if k != "kind")


def _number(value: Any) -> str:
    return wording.scientific(value) if isinstance(value, float) else str(value)


def _meter(f: CardFacts) -> float | None:
    """Return the share of the account's epsilon, in percent, that is spent, this release included.

    Shares of single releases are not shown: under a Rényi filter epsilons do not add up.
    """
    if not f.account_epsilon or f.account_spent_epsilon is None:
        return None
    return 100 * min(f.account_spent_epsilon / f.account_epsilon, 1.0)

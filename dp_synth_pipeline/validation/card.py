"""The release card: one page that says what was published, what it cost, and what that promises.

Releasable: everything on it is declared, released or spent. Nothing on it was computed from real rows without noise.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, level
from dp_synth_pipeline.validation import wording
from dp_synth_pipeline.validation.checks import CheckResult
from dp_synth_pipeline.validation.templates import render

FORMAT = "dp-synth/release-card/1"

LIMITS = (
    "The guarantee hides any one privacy unit. It does not hide facts about the population: a pattern that many share "
    "can be learned from this table, and is meant to be.",
    "It covers what was released under the entries named here. The fidelity report looks at real rows without noise: "
    "it is restricted, and not covered.",
    "Column names and storage types are treated as public. For a CSV file, so are the types detected in it.",
    "A source that cannot be used is refused by its structure: a broken line, an infinite number, no rows. That it was "
    "refused or accepted is not charged.",
    "Histograms are released with exact discrete noise. The noise of training is drawn in floating point, and the "
    "guarantee is that of the real-valued mechanism.",
    "The synthetic rows describe no real person. A row that equals a real one does so by chance.",
)
"""What holds for every release; `CardFacts.limits` adds to it."""


@dataclass(frozen=True)
class CardFacts:
    """What a card is made of, in plain types; fill in what is known.

    Attributes:
        table: name of the published table.
        created: when it was made, ISO text.
        rows, columns: size of the synthetic table.
        unit, unit_max_rows: the privacy unit, and how many rows of one unit took part.
        relation: the neighbouring relation.
        epsilon, delta: what this release cost.
        account: its name.
        account_epsilon, account_delta: its limit.
        account_spent_epsilon: epsilon spent on the account so far, this release included.
        account_left: what is left, in words; the rule of the account decides what that means.
        account_rule: the admission rule, in words.
        mechanisms: one dict a mechanism: `stage`, `entry` (its id in the ledger), `event` (`Event.to_dict()`).
        public: one dict a column: `name`, `storage`, `kind`, `declared` (a dict of the facts a person declared).
        declared_by: who declared them.
        checks: one dict a check: `name`, `passed`, `blocking`, `description`; `from_results` makes them.
        description: what the table is, in a sentence.
        code_version, run_id, source_fingerprint (keyed), ledger_head: where it came from.
        limits: what else a reader should know, a sentence each.
    """

    table: str
    created: str
    rows: int
    columns: int
    epsilon: float
    delta: float
    unit: str = "row"
    unit_max_rows: int = 1
    relation: str = ADD_REMOVE
    account: str = ""
    account_epsilon: float | None = None
    account_delta: float | None = None
    account_spent_epsilon: float | None = None
    account_left: str = ""
    account_rule: str = ""
    mechanisms: list[dict[str, Any]] = field(default_factory=list)
    public: list[dict[str, Any]] = field(default_factory=list)
    declared_by: str = ""
    checks: list[dict[str, Any]] = field(default_factory=list)
    description: str = ""
    code_version: str = ""
    run_id: str = ""
    source_fingerprint: str = ""
    ledger_head: str = ""
    limits: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ReleaseCard:
    """A card whose facts were looked over: epsilon and delta are real, and every dict has the keys a page needs."""

    facts: CardFacts

    def __post_init__(self) -> None:
        f = self.facts
        free = f.epsilon == 0 and not f.mechanisms
        if not (math.isfinite(f.epsilon) and (f.epsilon > 0 or free) and 0 <= f.delta < 1):
            raise InvalidInput(
                f"a release card needs a finite epsilon above 0 and a delta in [0, 1), got {f.epsilon} and "
                f"{f.delta}; take both from the settled ledger entries."
            )
        for what, dicts, needed in (
            ("mechanism", f.mechanisms, {"stage", "entry", "event"}),
            ("public column", f.public, {"name", "storage", "kind", "declared"}),
            ("check", f.checks, {"name", "passed", "blocking", "description"}),
        ):
            for one in dicts:
                if lacking := sorted(needed - set(one)):
                    known = ", ".join(sorted(needed))
                    raise InvalidInput(f"a {what} on a release card needs {known}; {lacking[0]} is missing.")

    @property
    def meaning(self) -> str:
        """What this (epsilon, delta) promises, in words."""
        f = self.facts
        return wording.meaning(f.epsilon, f.delta, f.unit, f.unit_max_rows)

    @property
    def limits(self) -> tuple[str, ...]:
        """What holds for every release, then what holds for this one."""
        return (*LIMITS, *self.facts.limits)

    def to_dict(self) -> dict[str, Any]:
        """Return the card, JSON-ready: its facts, and what follows from them under `derived`."""
        bound = wording.odds_bound(self.facts.epsilon)
        derived = {
            "level": level(self.facts.epsilon),
            "odds_bound": bound if math.isfinite(bound) else None,
            "meaning": self.meaning,
            "limits": list(self.limits),
            "checks_passed": sum(bool(c["passed"]) for c in self.facts.checks),
            "checks_failed": sum(not c["passed"] for c in self.facts.checks),
        }
        return {"format": FORMAT, "releasable": True, **asdict(self.facts), "derived": derived}


def from_results(results: list[CheckResult]) -> list[dict[str, Any]]:
    """Return check results in the form a card holds them."""
    return [{"name": r.name, "passed": r.passed, "blocking": r.blocking, "description": r.description} for r in results]


def to_json(card: ReleaseCard) -> str:
    """Return the card as JSON that `from_json` reads back unchanged."""
    return json.dumps(card.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> ReleaseCard:
    """Read back what `to_json` wrote.

    Raises:
        InvalidInput: if the text is not a release card of this version.
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        raise InvalidInput("expected a release card, got text that is not JSON; export the card again.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidInput(f"expected a release card of format {FORMAT}; export the card again with this version.")
    known = {f.name for f in fields(CardFacts)}
    return ReleaseCard(CardFacts(**{k: v for k, v in found.items() if k in known}))


def render_card(card: ReleaseCard) -> str:
    """Return the card as one small HTML page without scripts that makes no request to any network."""
    f = card.facts
    return render(
        "card.html.j2",
        card=card,
        f=f,
        level=level(f.epsilon),
        tone={"high": "good", "medium": "fair", "low": "poor"}[level(f.epsilon)],
        mechanisms=[_explained(m) for m in f.mechanisms],
        declared=[c for c in f.public if c["declared"]],
        failed=[c for c in f.checks if not c["passed"]],
        meter=_meter(f),
    )


def _explained(mechanism: dict[str, Any]) -> dict[str, Any]:
    event = mechanism["event"]
    return {**mechanism, "words": wording.mechanism(event), "parameters": _parameters(event)}


def _parameters(event: dict[str, Any]) -> str:
    return ", ".join(f"{k} = {_number(v)}" for k, v in event.items() if k != "kind")


def _number(value: Any) -> str:
    return wording.scientific(value) if isinstance(value, float) else str(value)


def _meter(f: CardFacts) -> float | None:
    """Return the share of the account's epsilon, in percent, that is spent, this release included.

    Shares of single releases are not shown: under a Renyi filter epsilons do not add up.
    """
    if not f.account_epsilon or f.account_spent_epsilon is None:
        return None
    return 100 * min(f.account_spent_epsilon / f.account_epsilon, 1.0)

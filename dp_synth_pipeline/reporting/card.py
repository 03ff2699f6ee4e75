"""The release card says on one page what was published, what it cost, and what that promises.

It is releasable, since everything on it is declared, released or spent. Nothing was computed from real rows without noise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, level
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.synthesis.protection import no_guarantee

__all__ = [
    "CardFacts",
    "ReleaseCard",
    "content",
    "from_json",
    "to_json",
]

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

UNPROTECTED = (
    "There is no privacy guarantee. The source was counted exactly and learnt from without clipping or noise; no account "
    "was charged. The person named above says that every row of it is public.",
    "Nothing here protects anybody in the source, from this table or together with others made of the same rows.",
    "A synthetic row may equal a real one: nothing prevents it.",
)
"""What holds for every release of a source that was declared public."""

REUSED = (
    "The epsilon above is what this release added. The table also shows the profile that release {} was charged for: "
    "seen together, both count, as they do in the account."
)
"""What a release says that used an earlier one's profile again."""


@dataclass(frozen=True)
class CardFacts:
    """What a card is made of, in plain types; fill in what is known.

    Attributes:
        table: name of the published table.
        created: when it was made, ISO text.
        rows, columns: size of the synthetic table.
        unit, unit_max_rows: the privacy unit, and how many rows of one unit took part.
        relation: the neighbouring relation.
        epsilon, delta: what this release cost; None without a guarantee.
        guarantee: 'dp', or 'none' for a source that a person declared public.
        public_by, public_why: who declared it public, and the reason; only with guarantee 'none'.
        account: its name.
        account_epsilon, account_delta: its limit.
        account_spent_epsilon: epsilon spent on the account so far, this release included.
        account_left: what is left, in words; the rule of the account decides what that means.
        account_rule: the admission rule, in words.
        mechanisms: one dict a mechanism: `stage`, `entry` (its id in the ledger), `event` (`Event.to_dict()`).
        reused: mechanisms of an earlier release whose profile this one used again; charged there, not here.
        reused_from: that release's id.
        public: one dict a column: `name`, `storage`, `kind`, `declared` (a dict of the facts a person declared).
        declared_by: who declared them.
        checks: one dict a check: `name`, `passed`, `blocking`, `description`.
        description: what the table is, in a sentence.
        code_version, run_id, source_fingerprint (keyed), ledger_head: where it came from.
        release: the ledger's id of this release, or the id of its record if nothing was charged.
        software: the package that made it, with its version.
        table_sha256: SHA-256 of the synthetic Parquet file as published: synthetic rows only, so it may be shown.
        seal: the ledger's keyed fingerprint of everything else on the card; only a ledger with that key can make it.
        limits: what else a reader should know, a sentence each.
        accuracy: charged figures of `validation.dp_metrics.Headline`, as `accuracy_one` and so on; empty if not asked for.
        audit: one dict a finding of `privacy.audit.Audit` on the training behind this release, as in its audit.json:
            `name`, `passed`, `claimed`, `measured`, `low`, `high`, `told`; empty if no noisy step was taken.
    """

    table: str
    created: str
    rows: int
    columns: int
    epsilon: float | None
    delta: float | None
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
    reused: list[dict[str, Any]] = field(default_factory=list)
    reused_from: str = ""
    public: list[dict[str, Any]] = field(default_factory=list)
    declared_by: str = ""
    checks: list[dict[str, Any]] = field(default_factory=list)
    description: str = ""
    code_version: str = ""
    run_id: str = ""
    source_fingerprint: str = ""
    ledger_head: str = ""
    limits: list[str] = field(default_factory=list)
    guarantee: str = "dp"
    public_by: str = ""
    public_why: str = ""
    release: str = ""
    software: str = ""
    table_sha256: str = ""
    seal: str = ""
    accuracy: dict[str, float] = field(default_factory=dict)
    audit: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class ReleaseCard:
    """A card whose facts were looked over: epsilon and delta are real, and every dict has the keys a page needs."""

    facts: CardFacts

    def __post_init__(self) -> None:
        f = self.facts
        if bool(f.reused) != bool(f.reused_from):
            raise InvalidInput("a release card names the release that was charged for what it reuses, and only then.")
        if self.protected:
            _check_cost(f)
        else:
            _check_public(f)
        for noun, dicts, required_keys in (
            ("mechanism", f.mechanisms + f.reused, {"stage", "entry", "event"}),
            ("public column", f.public, {"name", "storage", "kind", "declared"}),
            ("check", f.checks, {"name", "passed", "blocking", "description"}),
            ("finding", f.audit, {"name", "passed", "claimed", "measured", "low", "high", "told"}),
        ):
            for entry in dicts:
                if lacking := sorted(required_keys - set(entry)):
                    key_names = ", ".join(sorted(required_keys))
                    raise InvalidInput(f"a {noun} on a release card needs {key_names}; {lacking[0]} is missing.")

    @property
    def protected(self) -> bool:
        """Whether the release carries a guarantee."""
        return self.facts.guarantee != "none"

    @property
    def meaning(self) -> str:
        """What this (epsilon, delta) promises, in words; or that nothing is promised, and on whose word."""
        f = self.facts
        if f.epsilon is None or f.delta is None:
            return no_guarantee(f.public_by, f.public_why)
        return wording.meaning(f.epsilon, f.delta, f.unit, f.unit_max_rows)

    @property
    def limits(self) -> tuple[str, ...]:
        """What holds for every release, then what holds for this one."""
        reused = (REUSED.format(self.facts.reused_from),) if self.facts.reused_from else ()
        return (*(LIMITS if self.protected else UNPROTECTED), *reused, *self.facts.limits)

    def sealed(self, keyed: Callable[[str], str]) -> ReleaseCard:
        """Return the same card with the seal that `keyed`, a keyed fingerprint, gives of its content."""
        return ReleaseCard(replace(self.facts, seal=keyed(content(to_json(self)))))

    def to_dict(self) -> dict[str, Any]:
        """Return the card, JSON-ready: its facts, and what follows from them under `derived`."""
        epsilon = self.facts.epsilon
        bound = math.inf if epsilon is None else wording.odds_bound(epsilon)
        derived = {
            "level": "none" if epsilon is None else level(epsilon),
            "odds_bound": bound if math.isfinite(bound) else None,
            "meaning": self.meaning,
            "limits": list(self.limits),
            "checks_passed": sum(bool(c["passed"]) for c in self.facts.checks),
            "checks_failed": sum(not c["passed"] for c in self.facts.checks),
        }
        return {"format": FORMAT, "releasable": True, **asdict(self.facts), "derived": derived}


def _check_cost(f: CardFacts) -> None:
    free = f.epsilon == 0 and not f.mechanisms
    is_finite = f.epsilon is not None and f.delta is not None and math.isfinite(f.epsilon) and 0 <= f.delta < 1
    if not is_finite or not (free or (f.epsilon or 0) > 0):
        raise InvalidInput(
            f"a release card needs a finite epsilon above 0 and a delta in [0, 1), got {f.epsilon} and "
            f"{f.delta}; take both from the settled ledger entries."
        )
    if f.guarantee != "dp" or f.public_by or f.public_why:
        raise InvalidInput("a release card has an epsilon, or somebody who declared the source public, and never both.")


def _check_public(f: CardFacts) -> None:
    if not (f.public_by and f.public_why):
        raise InvalidInput(
            "a card without a guarantee names who declared the source public (public_by) and public_why."
        )
    if f.epsilon is not None or f.delta is not None or f.mechanisms or f.reused or f.account:
        raise InvalidInput("a card without a guarantee has no epsilon, delta, account or mechanism; leave them out.")


def to_json(card: ReleaseCard) -> str:
    """Return the card as JSON that `from_json` reads back unchanged."""
    return json.dumps(card.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def content(text: str) -> str:
    """Return everything on a card's JSON but its seal, in canonical form: what the seal is made over.

    It is taken from the text itself, so that a card stays true when a later version words or adds something.
    """
    facts = {k: v for k, v in json.loads(text, object_pairs_hook=_once).items() if k != "seal"}
    return "release card " + json.dumps(facts, sort_keys=True)


def from_json(text: str) -> ReleaseCard:
    """Read back what `to_json` wrote.

    Raises:
        InvalidInput: if the text is not a release card of this version.
    """
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        raise InvalidInput("expected a release card, got text that is not JSON; export the card again.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInput(f"expected a release card of format {FORMAT}; export the card again with this version.")
    field_names = {f.name for f in fields(CardFacts)}
    try:
        card_text = json.dumps({k: v for k, v in data.items() if k in field_names})
        return ReleaseCard(TypeAdapter(CardFacts).validate_json(card_text, strict=True))
    except ValidationError:
        raise InvalidInput("expected a whole release card; a field is missing or of another kind.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that comes twice: a person would read the first value, and a program the last."""
    if len(dict(pairs)) < len(pairs):
        raise InvalidInput("expected a release card, got one that says a thing twice; export the card again.")
    return dict(pairs)

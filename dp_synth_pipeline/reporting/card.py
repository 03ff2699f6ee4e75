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
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.synthesis import generator_files
from dp_synth_pipeline.synthesis.protection import no_guarantee
from dp_synth_pipeline.synthesis.release_plan import LOSS_QUERIES

__all__ = [
    "CardFacts",
    "ReleaseCard",
    "content",
    "from_json",
    "to_json",
]

FORMAT, FIRST_FORMAT = "dp-synth/release-card/2", "dp-synth/release-card/1"
"""The format of a card; in the first one, `epsilon` is what the release added and not what its table promises."""

_ALWAYS = (
    "The guarantee hides any one privacy unit. It does not hide facts about the population: a pattern that many share "
    "can be learned from this table, and is meant to be.",
    "It covers what was released under the entries named here. The fidelity report looks at real rows without noise: "
    "it is restricted, and not covered.",
    "The synthetic rows describe no real person. A row that equals a real one does so by chance.",
)

LIMITS = (
    *_ALWAYS,
    "Column names are treated as public, and so are storage types where a source has a schema. The types of a CSV's columns "
    "are declared, or measured with noise and charged.",
    "A value that its column's type does not hold is a null, row by row. That a source could be read to its end is not "
    "charged: a file that is damaged, or a disk that is full, ends a release, and its reservation stays held.",
    "Running times and file sizes are not protected.",
)
"""What holds for every release; `CardFacts.limits` adds to it."""

FIRST_LIMITS = (
    *_ALWAYS,
    "Column names and storage types are treated as public. For a CSV file, so are the types detected in it.",
    "A source that cannot be used is refused by its structure: a broken line, an infinite number, no rows. That it was "
    "refused or accepted is not charged.",
    "Histograms are released with exact discrete noise. The noise of training is drawn in floating point, and the "
    "guarantee is that of the real-valued mechanism.",
)
"""What held for every release whose card has the first format."""

UNPROTECTED = (
    "There is no privacy guarantee. The source was counted exactly and learnt from without clipping or noise; no account "
    "was charged. The person named above says that every row of it is public.",
    "Nothing here protects anybody in the source, from this table or together with others made of the same rows.",
    "A synthetic row may equal a real one: nothing prevents it.",
)
"""What holds for every release of a source that was declared public."""

INTENDED = (
    "Looking for patterns that many share, and planning an analysis of the real table.",
    "Building, testing and teaching with rows that look like real ones.",
)
"""What a table is for, if nobody wrote anything else."""

OUT_OF_SCOPE = (
    "Decisions about single people: no row describes anybody.",
    "Conclusions that matter, until they are confirmed on the real table.",
    "Rare groups and outliers: what few hold is hidden by noise, or left out.",
    "Finding out who was in the source, or joining these rows to people.",
)
"""What no protected table is for."""

UNPROTECTED_SCOPE = (
    "Anything that relies on a privacy guarantee: there is none.",
    "Conclusions that matter, until they are confirmed on the real table.",
)
"""What no table of a public source is for."""

UNCHARGED = (
    "No quality figure stands here, because none was charged: any figure that is computed from real rows tells something "
    "about them. The owner has a restricted report, and `validation: {report_epsilon: 0.05}` puts a charged figure here."
)
"""Why a card has no quality figure, for an account that could have paid for one."""

UNMEASURED = (
    "No quality figure stands here, because a card shows charged ones alone, and nothing is charged for a public source. "
    "The owner's quality report has them."
)
"""The same for a source that was declared public."""

REUSED = (
    "The epsilon above is what this release added. The table also shows the profile that release {} was charged for: "
    "seen together, both count, as they do in the account."
)
"""What a card of the first format says of a release that used an earlier one's profile again."""

LARGE_DELTA = (
    "The account's delta, {}, times the number of privacy units, about {:,}, is {}, which is not below 1: over all its "
    "releases the account promises little to a single unit. Open accounts with a smaller delta."
)
"""What a release says whose account has a delta that is no promise for so many units."""


@dataclass(frozen=True)
class CardFacts:
    """What a card is made of, in plain types; fill in what is known.

    Attributes:
        table: name of the published table.
        created: when it was made, ISO text.
        rows, columns: size of the synthetic table.
        unit, unit_max_rows: the privacy unit, and how many rows of one unit took part.
        relation: the neighbouring relation.
        epsilon, delta: what the table promises: that of all it is a function of, `mechanisms` and `reused` together; None
            without a guarantee.
        added_epsilon, added_delta: what this release cost by itself; None without a guarantee, and on a card of the first
            format, whose `epsilon` it is.
        trade_off: what an attacker reaches at most, from the same mechanisms: `privacy.tradeoff.TradeOff.figures`; empty on
            a card of the first format.
        population: the number of privacy units as it was declared or released with noise; None if it is not known.
        guarantee: 'dp', or 'none' for a source that a person declared public.
        public_by, public_why: who declared it public, and the reason; only with guarantee 'none'.
        account: its name.
        account_epsilon, account_delta: its limit.
        account_spent_epsilon: epsilon spent on the account so far, this release included.
        account_used: share of the account that is used, as the account counts, this release included.
        account_left: what is left, in words; the rule of the account decides what that means.
        account_rule: the admission rule, in words.
        mechanisms: one dict a mechanism: `stage`, `entry` (its id in the ledger), `event` (`Event.to_dict()`); and
            `planned`, the event as it was planned and as it counts, if it was stopped early.
        reused: mechanisms of earlier releases that this one builds upon, charged there and not here, in the same form, and
            the `release` of each.
        reused_from: the release whose profile was used again.
        public: one dict a column: `name`, `storage`, `kind`, `declared` (a dict of the facts a person declared).
        declared_by: who declared them.
        checks: one dict a check: `name`, `passed`, `blocking`, `description`.
        description: what the table is, in a sentence.
        code_version, run_id, ledger_head: where it came from.
        release: the ledger's id of this release, or the id of its record if nothing was charged.
        software: the package that made it, with its version.
        table_sha256: SHA-256 of the synthetic Parquet file as published: synthetic rows only, so it may be shown.
        seal: the ledger's keyed hash of everything else on the card; only a ledger with that key can make it.
        limits: what else a reader should know, a sentence each.
        accuracy: charged figures of `validation.dp_metrics.Headline`, as `accuracy_one` and so on; empty if not asked for.
        audit: one dict a finding of `privacy.audit.Audit` on the training behind this release, as in its audit.json:
            `name`, `passed`, `claimed`, `measured`, `low`, `high`, `told`; empty if no noisy step was taken.
        contact: whom to ask, in words; empty if nobody is named.
        intended_use, out_of_scope: what the table is for, and what it is not for, a sentence each; empty on earlier cards.
        one_run_audit: what the last one-run audit of this table proved, as in its one_run_audit.json: `release` (the one
            whose plan it attacked), `passed`, `claimed`, `epsilon`, `ratio`, `delta`, `confidence`; empty if there was none.
        tables: of a database, one dict a table: `name`, `rows`, `columns`, `belongs` (what its rows belong to, and which of
            them were kept, in words) and `sha256`; empty for a single table.
        umbrella, umbrella_epsilon, umbrella_delta: the umbrella that this release was charged to as well, and its limit on
            what all its member accounts release together; empty if the account is under none, and on earlier cards.
        looks: one dict a noisy loss that training asked for and paid for: `step`, `loss` (nats a row) and `deviation` (of
            the noise in it); empty if it asked for none, and on earlier cards.
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
    account_used: float | None = None
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
    added_epsilon: float | None = None
    added_delta: float | None = None
    trade_off: dict[str, Any] = field(default_factory=dict)
    population: int | None = None
    audit: list[dict[str, Any]] = field(default_factory=list)
    one_run_audit: dict[str, Any] = field(default_factory=dict)
    contact: str = ""
    intended_use: list[str] = field(default_factory=list)
    out_of_scope: list[str] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    umbrella: str = ""
    umbrella_epsilon: float | None = None
    umbrella_delta: float | None = None
    looks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def most_rows(self) -> int:
        """How many rows of one unit took part; 1, which is not said, of related tables: each says how many were kept."""
        return 1 if self.tables else self.unit_max_rows


@dataclass(frozen=True)
class ReleaseCard:
    """A card whose facts were looked over: epsilon and delta are real, and every dict has the keys a page needs."""

    facts: CardFacts

    def __post_init__(self) -> None:
        f = self.facts
        if any(not (m.get("release") or f.reused_from) for m in f.reused) or (f.reused_from and not f.reused):
            raise InvalidInput("a release card names the release that was charged for what it reuses, and only then.")
        if self.protected:
            _check_cost(f)
        else:
            _check_public(f)
        for noun, dicts, required_keys in (
            ("mechanism", f.mechanisms + f.reused, {"stage", "entry", "event"}),
            ("public column", f.public, {"name", "storage", "kind", "declared"}),
            ("check", f.checks, {"name", "passed", "blocking", "description"}),
            ("table", f.tables, {"name", "rows", "columns", "belongs", "sha256"}),
            ("look", f.looks, {"step", "loss", "deviation"}),
            ("finding", f.audit, {"name", "passed", "claimed", "measured", "low", "high", "told"}),
            ("one-run audit", [f.one_run_audit] if f.one_run_audit else [], set(generator_files.PROVED)),
        ):
            for entry in dicts:
                if lacking := sorted(required_keys - set(entry)):
                    key_names = ", ".join(sorted(required_keys))
                    raise InvalidInput(f"a {noun} on a release card needs {key_names}; {lacking[0]} is missing.")
        if len(f.looks) > sum(m["event"].get("steps", 0) for m in f.mechanisms if m["stage"] == LOSS_QUERIES):
            raise InvalidInput("a release card shows the looks at the loss that were charged for, and no others.")

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
        what = "these tables" if f.tables else "this table"
        return wording.meaning(f.epsilon, f.delta, f.unit, f.most_rows, what, f.trade_off.get("right_guess"))

    @property
    def limits(self) -> tuple[str, ...]:
        """What holds for every release, then what holds for this one."""
        f = self.facts
        reused = (REUSED.format(f.reused_from),) if f.reused_from and self.is_first_format else ()
        large = ()
        if f.population is not None and f.account_delta is not None and f.population * f.account_delta >= 1:
            product = wording.at_most(f.population * f.account_delta, 3)
            large = (LARGE_DELTA.format(wording.scientific(f.account_delta), f.population, product),)
        of_format = FIRST_LIMITS if self.is_first_format else LIMITS
        return (*(of_format if self.protected else UNPROTECTED), *reused, *large, *f.limits)

    @property
    def is_first_format(self) -> bool:
        """Whether its epsilon is what the release added: a card that was written before the ledger kept lineages."""
        return self.protected and self.facts.added_epsilon is None

    @property
    def added(self) -> str:
        """What of its epsilon this release added, in words; empty if that is all of it, or nobody recorded it."""
        f = self.facts
        if f.added_epsilon is None or f.added_delta is None or not f.reused:
            return ""
        return (
            f"That is the promise of everything that the table shows, mechanisms of earlier releases included. This release "
            f"added ε = {wording.at_most(f.added_epsilon)} at δ = {wording.scientific(f.added_delta)} by itself."
        )

    @property
    def quality(self) -> str:
        """Why there is no figure of the table's quality on the card; empty if there is one."""
        if self.facts.accuracy:
            return ""
        return UNCHARGED if self.protected else UNMEASURED

    @property
    def statements(self) -> list[str]:
        """What else it promises, a sentence each: what attackers reach at most, and how large delta is for so many units."""
        f = self.facts
        sentences = wording.trade_off(f.trade_off) if f.trade_off else []
        if f.population is not None and f.delta is not None:
            sentences.append(wording.delta_times(f.delta, f.population))
        return sentences

    def sealed(self, keyed: Callable[[str], str]) -> ReleaseCard:
        """Return the same card with the seal that `keyed`, a keyed hash, gives of its content."""
        return ReleaseCard(replace(self.facts, seal=keyed(content(to_json(self)))))

    def to_dict(self) -> dict[str, Any]:
        """Return the card, JSON-ready: its facts, and what follows from them under `derived`."""
        epsilon = self.facts.epsilon
        bound = math.inf if epsilon is None else wording.odds_bound(epsilon)
        derived = {
            "odds_bound": bound if math.isfinite(bound) else None,
            "meaning": self.meaning,
            "added": self.added,
            "quality": self.quality,
            "statements": self.statements,
            "limits": list(self.limits),
            "checks_passed": sum(bool(c["passed"]) for c in self.facts.checks),
            "checks_failed": sum(not c["passed"] for c in self.facts.checks),
        }
        format = FIRST_FORMAT if self.is_first_format else FORMAT
        facts = asdict(self.facts)
        for later in ("tables", "looks"):  # cards without them are as they always were
            if not facts[later]:
                del facts[later]
        return {"format": format, "releasable": True, **facts, "derived": derived}


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
    if not isinstance(data, dict) or data.get("format") not in (FORMAT, FIRST_FORMAT):
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

"""What the ledger keeps: accounts, releases and entries, as frozen values with a JSON-ready form."""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import Any, Literal, Self

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.privacy.events import Event, from_dict
from dp_synth_pipeline.privacy.filter import ATTO, NANO
from dp_synth_pipeline.privacy.tagged import TaggedEvent, tag

Rule = Literal["filter", "plan"]
FILTER: Rule = "filter"
PLAN: Rule = "plan"

RESERVED, STARTED, SETTLED, VOIDED = "reserved", "started", "settled", "voided"
WAITING, APPROVED, USED = "waiting", "approved", "used"
REQUESTER, PURPOSE, EVERY = "requester", "purpose", "*"

ROUNDING_SLACK = 16
"""Nano units that a caller leaves free, since every mechanism of a release is rounded up by at most one of them."""


@dataclass(frozen=True)
class _Record:
    """A value that is one row of a table, and one JSON object of the journal."""

    def to_record(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values that `from_record` reads back unchanged."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Read back what `to_record` wrote; other keys are left aside."""
        return cls(**{f.name: record[f.name] for f in fields(cls)})

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return what fields mean in a record that was written before they existed, or that leaves them out."""
        bare = {f.name: f.default for f in fields(cls) if f.default is not MISSING}
        return {k: json.dumps(v) if isinstance(v, tuple) else v for k, v in bare.items()}


@dataclass(frozen=True)
class Quota:
    """The most of an account that one requester, or one purpose, may take.

    Attributes:
        by: 'requester' or 'purpose'.
        name: whose quota it is; '*' for each that has none of its own.
        share: the part of what the account counts, and of its delta, from 0 to 1.

    Example:
        >>> Quota.parsed("requester=ana:0.25"), str(Quota("purpose", "*", 0.5))
        (Quota(by='requester', name='ana', share=0.25), 'purpose=*:0.5')
    """

    by: str
    name: str
    share: float

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Read what a person wrote.

        Raises:
            InvalidInput: if it is no quota.
        """
        kind, _, rest = str(text).partition("=")
        name, _, written = rest.rpartition(":")
        try:
            share = float(written)
        except ValueError:
            share = math.nan
        if kind.strip() not in (REQUESTER, PURPOSE) or not name.strip() or not 0 <= share <= 1:
            raise InvalidInput(
                f"a quota is {REQUESTER}=NAME:SHARE or {PURPOSE}=TEXT:SHARE, with a share of the account from 0 to 1 and "
                f"{EVERY} for each that has none of its own, such as requester=ana:0.25; got {text!r}."
            )
        return cls(kind.strip(), name.strip(), share)

    @property
    def part(self) -> Fraction:
        """The share, as the decimal that was written."""
        return Fraction(repr(self.share))

    def is_of(self, name: str) -> bool:
        """Whether it is this one's own, however the name is written."""
        return folded(self.name) == folded(name)

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.by}={self.name}:{self.share!r}"


def folded(name: str) -> str:
    """Return a name as it is compared with others, however it is written."""
    return name.strip().casefold()


@dataclass(frozen=True)
class Account(_Record):
    """One protected data set, one privacy unit, one limit, fixed when it was opened; only a named person raises it.

    Attributes:
        unit: 'row', or the column whose value names a privacy unit.
        max_rows: the most rows that one unit may have.
        rule: 'filter' (a Rényi filter: divergence at `order`) or 'plan' (declared plans: shares of epsilon and delta).
        order: the order of the Rényi filter; None under declared plans.
        cost_limit: nano units; Rényi divergence at `order` under a Rényi filter, epsilon under declared plans.
        delta_limit: units of 1e-18 that releases take shares of; under a Rényi filter only the part set aside for
            mechanisms with a delta of their own, under declared plans the whole delta.
        unit_in_one_block: a person confirmed that no privacy unit has rows in two blocks, so blocks may be charged.
        umbrella: it bounds what all its member accounts release together of one person, and has no releases of its own.
        under: the umbrella that each release of this account also charges; None if it is no member.
        approve_above: the share of the account above which a charge needs a second person; None or 1 if none does.
        quotas: the most that one requester, or one purpose, may take of it.
    """

    name: str
    unit: str
    max_rows: int
    relation: str
    epsilon: float
    delta: float
    rule: Rule
    order: float | None
    cost_limit: int
    delta_limit: int
    opened_at: str
    who: str
    why: str
    unit_in_one_block: bool = False
    umbrella: bool = False
    under: str | None = None
    approve_above: float | None = None
    quotas: tuple[Quota, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values, the quotas as text."""
        return {**super().to_record(), "quotas": json.dumps([str(q) for q in self.quotas])}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Read back what `to_record` wrote."""
        quotas = tuple(Quota.parsed(text) for text in json.loads(record["quotas"]))
        return super().from_record({**record, "quotas": quotas})

    def part(self, cost: int, delta: int) -> float:
        """Return which part of the account units of cost and delta are: of its cost or its delta, whichever is more."""
        return max(cost / self.cost_limit, delta / self.delta_limit if self.delta_limit else 0.0)

    @property
    def own_delta(self) -> float:
        """The delta open to mechanisms with a delta of their own, over the life of the account."""
        return self.delta_limit / ATTO


@dataclass(frozen=True)
class Release(_Record):
    """One refresh of one table: what it reserved as a whole, and what it was charged in the end.

    A release of a member of an umbrella has a mirror: a second record with the same events, in the umbrella's units, which
    changes in the same transaction. A charge that a person entered by hand is a release that is over at once.

    Attributes:
        key: names the request; asking twice with one key reserves once.
        epsilon, delta, own_delta: what was asked; `own_delta` is the part of `delta` for thresholds.
        reserved_cost, reserved_delta: what is held, in the account's units.
        charged_cost, charged_delta: what was charged at the end; None while the release is open.
        final_epsilon, final_delta: the guarantee of what ran; None while the release is open.
        fingerprint: the source's keyed fingerprint, encrypted: a random token to whoever lacks the ledger's key.
        plan: id of the declared plan of which this is one use; the plan was charged, so the use itself is not.
        blocks: the blocks that are charged; none if the account's own row is.
        relation: the account's neighbouring relation, under which every cost here is computed.
        mirrors: id of the member's release that this one charges an umbrella for; None for a release of its own.
        umbrella_order, umbrella_cost: the order and the units in which its mirror is reserved; None without a mirror.
        by_hand: a person entered it for what another tool released.
        purpose: what it is for, as whoever asked said; empty if nobody did, or an earlier version wrote it.
    """

    id: str
    account: str
    key: str
    table: str
    run_id: str
    code_version: str
    epsilon: float
    delta: float
    own_delta: float
    order: float | None
    reserved_cost: int
    reserved_delta: int
    state: str
    who: str
    reserved_at: str
    started_at: str | None = None
    ended_at: str | None = None
    charged_cost: int | None = None
    charged_delta: int | None = None
    final_epsilon: float | None = None
    final_delta: float | None = None
    fingerprint: str | None = None
    why: str = ""
    plan: str | None = None
    blocks: tuple[str, ...] = ()
    relation: str = ADD_REMOVE
    mirrors: str | None = None
    by_hand: bool = False
    umbrella_order: float | None = None
    umbrella_cost: int | None = None
    purpose: str = ""

    def to_record(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values, the blocks as text."""
        return {**super().to_record(), "blocks": json.dumps(self.blocks)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Read back what `to_record` wrote."""
        return super().from_record({**record, "blocks": tuple(json.loads(record["blocks"]))})

    @property
    def released(self) -> bool:
        """Whether it ended with something released: what is settled for a reason (a crash, a failed audit) did not."""
        return self.state == "settled" and not self.why

    @property
    def rdp_limits(self) -> dict[float, float]:
        """The Rényi divergences to calibrate within, by order, each under what was reserved: its account's, its umbrella's.

        None of them under declared plans without an umbrella.
        """
        held = [(self.order, self.reserved_cost), (self.umbrella_order, self.umbrella_cost or 0)]
        limits: dict[float, float] = {}
        for order, cost in held:
            if order is not None:
                limits[order] = min(limits.get(order, math.inf), max(0, cost - ROUNDING_SLACK) / NANO)
        return limits


@dataclass(frozen=True)
class Entry(_Record):
    """One mechanism of a release, written before it touched data.

    Attributes:
        position: 0 for the first mechanism of the release, 1 for the next.
        events: what the mechanism does, with which public parameters; enough to compute its cost again.
        planned: what it was started for, if it was settled for fewer steps; none otherwise.
        upon: ids of the earlier entries whose outcome it reads, such as a reused profile; None if it was written by a
            version that did not record them.
        cost: nano units of Rényi divergence at the account's order; under declared plans, its own epsilon, for information.
        delta: units of 1e-18 that the mechanism itself spends.
        steps_started: high-water mark; steps up to this one may have run.
        key: names the attempt, so that a lost reply can be asked for again.
    """

    id: str
    release_id: str
    account: str
    position: int
    mechanism: str
    events: tuple[Event, ...]
    cost: int
    delta: int
    state: str
    steps_started: int
    key: str | None
    started_at: str
    settled_at: str | None
    planned: tuple[Event, ...] = ()
    upon: tuple[str, ...] | None = None

    @property
    def steps_paid(self) -> int:
        """How many steps this entry pays for."""
        return sum(e.size for e in self.events if e.in_steps)

    @property
    def tagged(self) -> tuple[TaggedEvent, ...]:
        """The events, each beside the tag of the mechanism."""
        return tuple(TaggedEvent(tag(self.mechanism), e) for e in self.events)

    def to_record(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values, the events as text."""
        texts = {"events": dump_events(self.events), "planned": dump_events(self.planned)}
        return {**super().to_record(), **texts, "upon": None if self.upon is None else json.dumps(self.upon)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Read back what `to_record` wrote."""
        events = {name: load_events(record[name]) for name in ("events", "planned")}
        upon = None if record["upon"] is None else tuple(json.loads(record["upon"]))
        return super().from_record({**record, **events, "upon": upon})


@dataclass(frozen=True)
class Plan(_Record):
    """One release, declared to run at most `times`, accounted once for all its repetitions.

    Attributes:
        events: what one use may run at most.
        mechanisms: the mechanism that each event belongs to; none in a plan that was declared without.
        used: how many uses are taken; a voided one came back.
        takes: 'account' if the plan is the whole account, 'share' if it takes an (epsilon, delta) of it, 'renyi' if
            it enters the account's Rényi filter by its Rényi divergence.
        epsilon, delta: what all repetitions together are, by one privacy loss distribution.
        cost, cost_delta: what the account was charged when it was declared, in the account's units.
        mirrors: id of the member's plan that this one charges an umbrella for; None for a plan of its own.
    """

    id: str
    account: str
    name: str
    events: tuple[Event, ...]
    times: int
    used: int
    takes: str
    epsilon: float
    delta: float
    cost: int
    cost_delta: int
    relation: str
    declared_at: str
    who: str
    why: str
    mechanisms: tuple[str, ...] = ()
    mirrors: str | None = None

    @property
    def tagged(self) -> tuple[TaggedEvent, ...]:
        """The events, each beside its mechanism, or beside '' if the plan names none."""
        mechanisms = self.mechanisms or ("",) * len(self.events)
        return tuple(TaggedEvent(m, e) for m, e in zip(mechanisms, self.events, strict=True))

    def to_record(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values; a plan without mechanisms is written as it was before there were any."""
        record = {**super().to_record(), "events": dump_events(self.events), "mechanisms": json.dumps(self.mechanisms)}
        return record if self.mechanisms else {k: v for k, v in record.items() if k != "mechanisms"}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Read back what `to_record` wrote."""
        whole = {**cls.defaults(), **record}
        mechanisms = tuple(json.loads(whole["mechanisms"]))
        return super().from_record({**whole, "events": load_events(whole["events"]), "mechanisms": mechanisms})


@dataclass(frozen=True)
class Claim:
    """For whom a charge counts.

    Attributes:
        who: the requester, as the ledger records them.
        purpose: what it is for; of a plan and of a charge by hand, the reason that a person gave. Empty if nobody said.
        blocks: the blocks that it names.
    """

    who: str
    purpose: str = ""
    blocks: tuple[str, ...] = ()

    @classmethod
    def of(cls, record: Release | Plan) -> Claim:
        """Return whom a record counts for."""
        if isinstance(record, Plan):
            return cls(record.who, record.why)
        return cls(record.who, record.purpose, record.blocks)

    def named(self, by: str) -> str:
        """Return its requester or its purpose."""
        return self.who if by == REQUESTER else self.purpose


@dataclass(frozen=True)
class Request(_Record):
    """What somebody asks a second person for: one act on an account, with exactly these terms, to be done once.

    Attributes:
        act: the action that the journal will call it: 'reserved', 'planned', 'charged by hand', 'raised' or 'amended'.
        terms: what it would do, as canonical JSON text.
        terms_hash: the hash of all that is approved: account, act, terms and reason.
        state: 'waiting', 'approved', or 'used' by the very decision that it was needed for.
        share: which part of the account, or of its umbrella, it would take.
        who, why: who asks, and what for.
        approved_by, approved_why: the second person, and their reason; empty while it waits.
    """

    id: str
    account: str
    act: str
    terms: str
    terms_hash: str
    state: str
    share: float
    who: str
    why: str
    asked_at: str
    approved_by: str = ""
    approved_why: str = ""
    approved_at: str | None = None
    used_at: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The terms as plain values."""
        return json.loads(self.terms)


@dataclass(frozen=True)
class JournalRow(_Record):
    """One link of the chain: who did what, when, to which account, release and entry."""

    seq: int
    at: str
    who: str
    action: str
    account: str
    release_id: str | None
    entry_id: str | None
    body: str
    previous: str
    hash: str

    @property
    def facts(self) -> dict[str, Any]:
        """The account, release and entries as this row left them."""
        return json.loads(self.body)


def dump_events(events: tuple[Event, ...]) -> str:
    """Return events as canonical JSON text; refuse a parameter that is not a plain number."""
    try:
        return json.dumps([e.to_dict() for e in events], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput("an event's parameters must be plain, finite Python numbers; convert them first.") from error


def load_events(text: str) -> tuple[Event, ...]:
    """Read back what `dump_events` wrote."""
    return tuple(from_dict(fact) for fact in json.loads(text))

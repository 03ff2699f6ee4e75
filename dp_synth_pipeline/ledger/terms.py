"""What a ledger is asked for: the terms of an account, the terms of a plan, the budget of one release.

Each is a value, and beside it a `TypedDict` of the same fields, so that a person gives them as plain keywords:
`ledger.open_account("patients", epsilon=6, delta=1e-5)`. What is wrong with them is said in `request`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Required, TypedDict

from dp_synth_pipeline.ledger.entry import FILTER, Rule
from dp_synth_pipeline.privacy.events import Event


class AccountKeywords(TypedDict, total=False):
    """The fields of `AccountTerms`, as keywords."""

    epsilon: Required[float]
    delta: Required[float]
    unit: str | None
    max_rows: int
    rule: Rule
    own_delta_share: float
    why: str
    relation: str | None
    blocks: Iterable[str]
    unit_in_one_block: bool
    umbrella: bool
    under: str | None
    approve_above: float | None
    quotas: Iterable[str]


@dataclass(frozen=True, kw_only=True)
class AccountTerms:
    """What a person opens an account for.

    Attributes:
        epsilon, delta: the limit on everything that will ever be released from it.
        unit, max_rows: whose presence is hidden: 'row', or a column, with at most `max_rows` rows to a value. A member of
            an umbrella protects the umbrella's unit; an umbrella has no `max_rows`, since each member has its own.
        rule: 'filter' for any number of releases chosen as one goes, 'plan' for shares of (epsilon, delta).
        own_delta_share: under 'filter', the part of delta set aside for mechanisms with a delta of their own.
        why: the reason, for the record.
        relation: 'add-remove' or 'replace-one': what it is that two neighbouring tables differ in; a member's is the
            umbrella's.
        blocks: disjoint parts of the table that releases may be charged to one by one.
        unit_in_one_block: a person's word that no privacy unit has rows in two blocks; blocks are unsound without.
        umbrella: it bounds what its member accounts release together, and has no releases of its own.
        under: the umbrella that each release of this account also charges.
        approve_above: the share of the account, from 0 to 1, above which a charge needs a second person; none if it is None.
        quotas: the share that one requester or purpose may take, each as 'requester=NAME:SHARE' or 'purpose=TEXT:SHARE'.
    """

    epsilon: float
    delta: float
    unit: str | None = None
    max_rows: int = 1
    rule: Rule = FILTER
    own_delta_share: float = 0.05
    why: str = ""
    relation: str | None = None
    blocks: Iterable[str] = ()
    unit_in_one_block: bool = False
    umbrella: bool = False
    under: str | None = None
    approve_above: float | None = None
    quotas: Iterable[str] = ()


class PlanKeywords(TypedDict, total=False):
    """The fields of `PlanTerms`, as keywords."""

    name: Required[str]
    events: Required[Sequence[Event]]
    times: Required[int]
    share: tuple[float, float] | None
    mechanisms: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class PlanTerms:
    """What a person declares: one release, and how often it will run at most.

    Attributes:
        events: what one release may run at most, with its public parameters.
        share: the (epsilon, delta) of the account that the plan takes. Without one the plan is the whole account under
            rule 'plan', and enters by its Rényi divergence under rule 'filter'.
        mechanisms: the mechanism of a release that each event belongs to, such as 'training'; or none at all. What runs
            under a mechanism then takes only from the events that were declared for it.
    """

    name: str
    events: Sequence[Event]
    times: int
    share: tuple[float, float] | None = None
    mechanisms: Sequence[str] = ()


class BudgetKeywords(TypedDict, total=False):
    """The fields of `BudgetRequest`, as keywords."""

    key: Required[str]
    table: Required[str]
    run_id: Required[str]
    code_version: Required[str]
    epsilon: float | None
    delta: float | None
    own_delta: float | None
    unit: str
    max_rows: int
    plan: str | None
    blocks: Iterable[str]
    nominal: Sequence[Event] | None
    purpose: str


@dataclass(frozen=True, kw_only=True)
class BudgetRequest:
    """What one refresh of one table asks of its account.

    Attributes:
        key: names this request; a retry of the run needs a new key, and is a new charge.
        epsilon, delta: what the release as a whole may cost; `delta` at most the account's. A use of a plan may
            leave them away: then they are what the plan declared.
        own_delta: the part of `delta` for mechanisms with a delta of their own.
        unit, max_rows: what the pipeline protects; must be what the account protects.
        plan: a declared plan of which this is one use.
        blocks: the blocks whose rows are read, each of which is charged; without them, the account's own row is.
        nominal: the mechanisms that are meant to run, so that a refusal can say which steps and noise would fit.
        purpose: what it is for, which a second person is told and approves, and a quota may bound.
    """

    key: str
    table: str
    run_id: str
    code_version: str
    epsilon: float | None = None
    delta: float | None = None
    own_delta: float | None = None
    unit: str = "row"
    max_rows: int = 1
    plan: str | None = None
    blocks: Iterable[str] = ()
    nominal: Sequence[Event] | None = None
    purpose: str = ""

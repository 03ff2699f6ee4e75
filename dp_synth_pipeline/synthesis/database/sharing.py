"""Divides a database's release over its tables: one reservation, of which each table's mechanisms take a part.

Signal is divided in squared ratios of signal to noise, in which Gaussian costs add up. A table's mechanisms are calibrated
so that what ran before, they, and what later tables were promised fit into the release together. The last table takes all
that is left. So nothing rests on the shares but quality: the accountant sees the composition as it ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Entry, Ledger
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.privacy.events import Event, Gaussian, Threshold
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.relations import static_columns
from dp_synth_pipeline.relations.static_columns import Candidates, StaticPlan
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.synthesis import blocks
from dp_synth_pipeline.synthesis.allocation import (
    TRAINING,
    Allocation,
    BudgetRequest,
    Calibrated,
    RemainingBudget,
    final_delta,
    whole_noise,
)
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.protection import LedgerProtection, events_of
from dp_synth_pipeline.tabular.profiling.profile_plan import most_refined
from dp_synth_pipeline.tabular.schema import TableSchema

STATIC_SHARE = 0.03
"""Part of a table's squared signal to noise that finding takes which columns below it are static, and which never fall."""

HISTORY_COUNTS_SHARE = 0.2
"""Part of what is left of a table's squared signal to noise that counting its rows takes; training takes the rest."""

ROUNDED = 1e-6
"""Part of each table's threshold delta that is left unused, since the ledger rounds every charge up."""


@dataclass(frozen=True)
class Part:
    """What one table takes of a release.

    Attributes:
        table: its name.
        share: its part of the squared signal to noise.
        later: the part of the tables after it.
        tables: how many tables there are.
        tables_later: how many come after it.
        population: released number of root rows, once it is known.
        persons: how many of them have rows in this table, as was released; None for the root.
    """

    table: str
    share: float
    later: float
    tables: int
    tables_later: int
    population: int | None = None
    persons: int | None = None

    @classmethod
    def of(
        cls, shares: Mapping[str, float], name: str, population: int | None = None, persons: int | None = None
    ) -> Part:
        """Return what a table takes of a release.

        Args:
            shares: of each table, in the order in which they are learnt, from `shares_of`.
        """
        names = list(shares)
        after = names[names.index(name) + 1 :]
        later = sum(shares[n] for n in after)
        return cls(name, shares[name], later, len(names), len(after), population, persons)


def shares_of(
    declared: Mapping[str, float] | None, relations: Relations, sources: Mapping[str, TableSchema]
) -> dict[str, float]:
    """Return the part of the squared signal to noise that each table's learning takes, in the order of learning.

    Unless they are declared, they go by the square roots of how many columns are learnt with each: so the sum of what noise
    does to all columns is least, if what it does to one follows from the signal alone.

    Args:
        sources: the columns of each source; none before they are read.
    """
    parts = declared or {table.name: sqrt(_columns(table, relations, sources)) for table in relations}
    return {table.name: parts[table.name] / sum(parts.values()) for table in relations}


def _columns(table: Related, relations: Relations, sources: Mapping[str, TableSchema]) -> int:
    """Return how many columns are learnt with a table: its own; of tables below, static ones, counts and beginnings."""
    below = sum(1 + (child.order is not None) + len(child.static) for child in relations.children(table.name))
    source = sources.get(table.name)
    own = set() if source is None else {column.name for column in source.published} - {*table.keys, *table.static}
    return max(len(own) + below, 1)


class SharedAllocation(Calibrated):
    """Divides one table's part of a release over its mechanisms."""

    def __init__(self, settings: DatabaseSettings, release: LedgerRelease, part: Part, others: Sequence[Event]) -> None:
        super().__init__(settings.learnt(part.table, part.persons), release)
        self._whole, self._part, self._others = self._request, part, others
        self._request = replace(
            self._whole, own_delta=self._whole.own_delta / part.tables * (1 - ROUNDED), share=part.share
        )

    def delta(self, population: int) -> float:
        return final_delta(self.settings, self._whole, self._part.population or population)

    def noise(self, population: int) -> float:
        return super().noise(population) / sqrt(self._part.share)

    def _named(self, schema: TableSchema) -> int:
        return 0 if self._part.persons is None else most_refined(schema)

    def static(self, candidates: Mapping[str, Candidates]) -> StaticPlan:
        whole = whole_noise(self.settings, self._request, self._release.relation)
        return StaticPlan(candidates, whole * sqrt(static_columns.weight(candidates) / STATIC_SHARE))

    def history_counts(self, population: int, spent: Sequence[Event]) -> float:
        return self._budget(spent, population).whole([TRAINING]) / sqrt(HISTORY_COUNTS_SHARE)

    def _budget(self, spent: Sequence[Event], population: int) -> RemainingBudget:
        return RemainingBudget.of(self._release, [*self._others, *spent, *self._promised], self.delta(population))

    @property
    def _promised(self) -> list[Event]:
        """What the tables after this one may spend."""
        part = self._part
        if not part.tables_later:
            return []
        noise = whole_noise(self.settings, replace(self._whole, share=1.0), self._release.relation)
        return [Gaussian(noise / sqrt(part.later)), Threshold(self._request.own_delta * part.tables_later)]


class DatabaseProtection(LedgerProtection):
    """An account pays for all tables together, or refuses them together."""

    def __init__(self, settings: DatabaseSettings, ledger: Ledger) -> None:
        super().__init__(settings.whole, ledger)
        self.database = settings

    @property
    def released_as(self) -> str:
        return self.database.name

    def reserve_database(self, key: str, run_id: str, *, goes_on: bool = False) -> LedgerRelease:
        """Hold all that the release may cost; the same key holds it once.

        Args:
            goes_on: all of its tables are expected to go on from an earlier release, so that it may ask for less.

        Raises:
            BudgetExceeded: if it does not fit what is left of the account; nothing was read or changed.
            InvalidInput: if the account protects another privacy unit than one row of the root.
        """
        return self.ledger.reserve(self.database.account, key=key, run_id=run_id, **self.asked(goes_on=goes_on))

    def asked(self, part: blocks.Part | None = None, *, goes_on: bool = False) -> dict[str, Any]:
        account = self.ledger.account(self.database.account)
        self._check_unit(account.unit)
        return {
            **BudgetRequest.of(self.settings, account.delta, goes_on=goes_on).costs(),
            "unit": account.unit,
            "max_rows": account.max_rows,
            "table": self.database.name,
            "code_version": self.database.code_version(),
        }

    def _check_unit(self, unit: str) -> None:
        root = self.database.relations.root
        if unit not in ("row", root.name, root.key):
            raise InvalidInput(
                f"account {self.database.account} protects all rows of one {unit}, and this database protects one row of "
                f"{root.name}, which {root.key} names. Charge an account of that unit: dp-synth ledger open NAME --unit "
                f"{root.key} --epsilon E --delta D."
            )


class TableProtection(LedgerProtection):
    """One table's part of a database's release: its charges name the table, and its settlement is the database's."""

    def __init__(self, settings: DatabaseSettings, ledger: Ledger, part: Part) -> None:
        super().__init__(settings.learnt(part.table, part.persons), ledger)
        self._database, self.part = settings, part

    @property
    def released_as(self) -> str:
        return self._database.name

    def allocation(self, release_id: str) -> Allocation:
        others = [e for e in self.ledger.entries(release_id=release_id) if not _is_of(e.mechanism, self.part.table)]
        return SharedAllocation(self._database, self.record(release_id), self.part, events_of(others))

    def charge(
        self,
        release_id: str,
        mechanism: str,
        events: Sequence[Event],
        key: str | None = None,
        upon: Sequence[str] = (),
    ) -> Entry | None:
        return super().charge(release_id, named(mechanism, self.part.table), events, key, upon)

    def entries(self, release_id: str) -> Sequence[Entry]:
        own = [e for e in self.ledger.entries(release_id=release_id) if _is_of(e.mechanism, self.part.table)]
        return [replace(e, mechanism=_bare(e.mechanism, self.part.table)) for e in own]

    def note_source(self, release_id: str, digest: str) -> None:
        """The fingerprint of all tables together is on record; a single table's is not."""

    def settle(self, release_id: str, *, delta: float, ran: Sequence[TaggedEvent] | None = None) -> LedgerRelease:
        """Leave the release open: it is settled once every table is learnt."""
        return self.record(release_id)


def named(mechanism: str, table: str) -> str:
    """Name a mechanism of one table of a database, as the ledger keeps it.

    Example:
        >>> named("training", "visits"), named("training, resumed at 50", "visits")
        ('training of visits', 'training of visits, resumed at 50')
    """
    what, comma, attempt = mechanism.partition(",")
    return f"{what} of {table}{comma}{attempt}"


def _is_of(mechanism: str, table: str) -> bool:
    return mechanism.partition(",")[0].endswith(f" of {table}")


def _bare(mechanism: str, table: str) -> str:
    what, comma, attempt = mechanism.partition(",")
    return f"{what.removesuffix(f' of {table}')}{comma}{attempt}"

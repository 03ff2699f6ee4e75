"""A table's partitions as privacy blocks: which rows a run reads, which blocks of the ledger pay, where the outcome lies.

Two blocks never share a row: windows are half open and of one cadence, values differ after folding, and an account's blocks
must all come from one column cut in one way. So whoever has rows in one block only is protected by that block's
balance alone (parallel composition). Whose rows may lie in several is charged to the account's own row.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_shared.check import CheckError

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.sections import PartitionSettings, folded
from dp_synth_pipeline.tabular.sql import literal, quoted
from dp_synth_pipeline.tabular.targets import sink

if TYPE_CHECKING:
    from dp_synth_pipeline.orchestration.config import TableSettings

PLACE = "{partition}"
"""Where a target names its partition."""

FOLDER = "partition="
"""How a partition's folder begins, in its table's."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Part:
    """What one run reads of a table, who pays for it and where its outcome lies; all of it public.

    Attributes:
        keys: the partitions; none for a table without.
        label: names them: a partition, or FIRST--LAST.
        where: the predicate that its rows satisfy, the declared filter included.
        blocks: the ledger's blocks that are charged; none: the account's own row is.
        folder: its folder under the store's `releasable`.
        targets: where the synthetic rows go.
    """

    keys: tuple[str, ...]
    label: str
    where: str | None
    blocks: tuple[str, ...]
    folder: str
    targets: list[str]


def keys_of(context: dg.AssetExecutionContext, settings: TableSettings) -> tuple[str, ...]:
    """Return the partitions that a run refreshes; none for a table without.

    Raises:
        InvalidInput: if the table has partitions and the run names none: it must not read them all.
    """
    if settings.partitions is None:
        return ()
    try:
        return tuple(context.partition_keys)
    except (dg.DagsterError, CheckError):
        return part(settings).keys


def part(settings: TableSettings, keys: Sequence[str] = ()) -> Part:
    """Return what a run over some partitions reads and charges; the whole table, if it has none.

    Raises:
        InvalidInput: if the table has partitions and none is named, or one that is not its own.
    """
    cut = settings.partitions
    if cut is None:
        return Part((), "", settings.filter, (), settings.name, settings.targets)
    known = set(definition(cut).get_partition_keys()) if cut.values else None
    if not keys or (known is not None and not set(keys) <= known):
        raise InvalidInput(
            f"{settings.name} has partitions, and each run says which ones it refreshes: choose a partition, or a range."
        )
    label = folded_label(keys)
    wanted = predicate(cut, keys, settings.source)
    targets = [_named(t, label) for t in settings.targets]
    for target in targets:
        sink.check_spared(target, settings.read)
    return Part(
        tuple(keys),
        label,
        wanted if settings.filter is None else f"({settings.filter}) AND {wanted}",
        tuple(block(cut, k) for k in keys) if charges_blocks(settings) else (),
        f"{settings.name}/{FOLDER}{label}",
        targets,
    )


def definition(cut: PartitionSettings) -> dg.PartitionsDefinition:
    """Return the partitions as Dagster knows them; a window is one only when it is over."""
    if cut.values is not None:
        return dg.StaticPartitionsDefinition(cut.values)
    start = str(cut.start)
    if cut.cadence == "daily":
        return dg.DailyPartitionsDefinition(start_date=start)
    if cut.cadence == "weekly":
        return dg.WeeklyPartitionsDefinition(start_date=start, day_offset=1)
    return dg.MonthlyPartitionsDefinition(start_date=start)


def charges_blocks(settings: TableSettings) -> bool:
    """Say whether a run pays from its blocks: a row lies in one; a unit of several rows does if a person says so."""
    cut = settings.partitions
    if cut is None or settings.privacy == "none" or settings.plan is not None:
        return False  # a use of a plan is paid for by the account's own row, which counts on top of every block
    return cut.units_span is False or (cut.units_span is None and settings.privacy_unit.column is None)


def check(settings: TableSettings) -> None:
    """Refuse partitions that would break the promise or overwrite one another.

    Raises:
        InvalidInput: naming the field and what to write instead.
    """
    cut = settings.partitions
    named = [PLACE in t for t in settings.targets]
    if cut is None:
        if any(named):
            raise InvalidInput(f"target: {PLACE} needs `partitions`; add them, or name one table.")
        return
    unit = settings.privacy_unit.column
    if unit is not None and settings.privacy == "dp" and cut.units_span is None:
        raise InvalidInput(
            f"partitions: the privacy unit is {unit}, and one {unit} may have rows in several blocks; what each block "
            f"releases about them then adds up. Write units_span: true, and every partition is charged to the account as a "
            f"whole; or units_span: false, if you declare that each {unit} has rows in one block only."
        )
    if not all(named):
        raise InvalidInput(
            f"target: partitions would overwrite one another; write {PLACE} into each target, as in "
            f"visits/visit_date={PLACE}/rows.parquet or duckdb:///warehouse.duckdb?table=synthetic.visits_{PLACE}."
        )
    if settings.on_new_data is not None:
        raise InvalidInput("on_new_data: a partition is refreshed when its window is over; write a `schedule` instead.")


def predicate(cut: PartitionSettings, keys: Sequence[str], source: str) -> str:
    """Return the predicate of the rows in some partitions, as SQL of the source; of one row at a time.

    A value is compared as text, so that no two of them fit one cell (as '1' and '01' would an integer).
    """
    bigquery = source.lower().startswith("bigquery:")  # where "name" would be a text, and true of every row
    if bigquery and "`" in cut.column:
        raise InvalidInput("partitions: a BigQuery column's name holds no backtick.")
    column = f"`{cut.column}`" if bigquery else quoted(cut.column)
    if cut.values is not None:
        text = "STRING" if bigquery else "VARCHAR"
        return f"CAST({column} AS {text}) IN ({', '.join(map(literal, keys))})"
    spans = [f"({column} >= '{a:%Y-%m-%d}' AND {column} < '{b:%Y-%m-%d}')" for a, b in _windows(cut, keys)]
    return spans[0] if len(spans) == 1 else f"({' OR '.join(spans)})"


def _windows(cut: PartitionSettings, keys: Sequence[str]) -> list[tuple[datetime, datetime]]:
    """Return the windows of some partitions, half open, adjoining ones joined."""
    known: Any = definition(cut)
    try:
        found = sorted((w.start, w.end) for w in map(known.time_window_for_partition_key, keys))
    except (ValueError, dg.DagsterError):
        found = []
    if sorted(f"{start:%Y-%m-%d}" for start, _ in found) != sorted(
        keys
    ):  # a key inside a window would name another block
        raise InvalidInput(
            f"partitions: expected first days of {cut.cadence} windows, as in 2026-02-01; got another form."
        )
    joined = found[:1]
    for start, end in found[1:]:
        if start == joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def block(cut: PartitionSettings, key: str) -> str:
    """Return the name of a partition's block in the ledger: the column, how it is cut, and the partition.

    Example:
        >>> block(PartitionSettings(column="seen", cadence="daily", start="2026-01-01"), "2026-01-25")
        'seen:daily:2026-01-25'
    """
    return f"{_scheme(cut)}{_plain(folded(key) if cut.values else key)}"


def _scheme(cut: PartitionSettings) -> str:
    return f"{_plain(cut.column)}:{cut.cadence or 'value'}:"


def _plain(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else f"x-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def folded_label(keys: Sequence[str]) -> str:
    """Return what names one partition, or a range of them, in files and tables."""
    ends = [re.sub(r"[^\w.-]+", "_", k.strip()).lstrip(".") for k in (keys[0], keys[-1])]
    return ends[0] if len(keys) == 1 else "--".join(ends)


def _named(target: str, label: str) -> str:
    """Write a partition into a target; a table's name has underscores where a folder's has dashes."""
    place, mark, query = target.partition("?")
    return place.replace(PLACE, label) + mark + query.replace(PLACE, re.sub(r"\W", "_", label))


def limits(settings: TableSettings, keys: Sequence[str]) -> list[str]:
    """Return what a release card says about the partitions that a release covers."""
    cut = settings.partitions
    if cut is None or not keys:
        return []
    name, covered = cut.column, keys[0] if len(keys) == 1 else f"{keys[0]} to {keys[-1]}"
    told = [
        f"It covers the rows whose {name} is in {f'the {cut.cadence} window' if cut.cadence else 'value'} {covered}."
    ]
    if settings.privacy == "none":
        return told
    if not charges_blocks(settings):
        return [*told, "The account as a whole was charged, since a unit may have rows in several partitions."]
    if settings.privacy_unit.column is not None:
        told.append(
            f"That each {settings.privacy_unit.column} has rows in one partition only was declared; it was not checked."
        )
    return [*told, "Its own partition was charged: a row whose value there changes later lies in two of them."]


def require_blocks(ledger: Ledger, settings: TableSettings) -> None:
    """Refuse to charge blocks of an account that was not opened for them, or that was cut in another way.

    Raises:
        InvalidInput: since blocks that share rows would each promise what only their sum keeps.
    """
    cut, account = settings.partitions, ledger.account(settings.charge.account)
    if cut is None:
        return
    if not account.unit_in_one_block:
        raise InvalidInput(
            f"account {account.name!r} was not opened for blocks, so partitions cannot have balances of their own. Open one "
            f"for them: dp-synth ledger open NAME --epsilon E --delta D --unit {account.unit} --unit-in-one-block; or "
            f"write units_span: true, and every partition is charged to the account as a whole."
        )
    others = [b for b in ledger.blocks(account.name) if not b.startswith(_scheme(cut))]
    if others:
        raise InvalidInput(
            f"account {account.name!r} has the block {others[0]!r}, which is not cut by {_scheme(cut)[:-1]} and may share "
            f"rows with this table's partitions. Partition in the same way, or use an account of its own for other data."
        )


def open_blocks(ledger: Ledger, settings: TableSettings, wanted: Part, run_id: str, **asked: Any) -> None:
    """Add the blocks of new partitions to an account that a person opened for blocks; nothing if they would not fit.

    Args:
        asked: epsilon, delta and own_delta of the release.
    """
    if not wanted.blocks:
        return
    require_blocks(ledger, settings)
    account = settings.charge.account
    known = set(ledger.blocks(account))
    fresh = [b for b in wanted.blocks if b not in known]
    if not fresh:
        return
    if not ledger.admitted(account, **asked, each=[wanted.blocks])[0]:  # a refusal leaves no trace, so no block either
        ledger.preview(account, **asked, blocks=[b for b in wanted.blocks if b in known])
        ledger.preview(account, **asked)
    ledger.add_blocks(account, fresh, why=f"new partitions of {settings.name}", who=f"run {run_id}")

"""Maps a table's partitions to privacy blocks: which rows a run reads, which blocks pay, and where the outcome lies.

Two blocks never share a row: windows are half open and of one cadence, values differ after folding, and an account's blocks
must all come from one column cut in one way. So whoever has rows in one block only is protected by that block's
balance alone (parallel composition). Whose rows may lie in several is charged to the account's own row.

What a run reads may be cut in another way than the blocks, and cover windows that other runs cover too. It is charged to
every block that it may read a row of, so a row is paid for by the block of its own date, whatever the windows were that it
was released in, and as often as it was.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.synthesis.settings import PLACE, PartitionSettings, ReleaseSettings, folded
from dp_synth_pipeline.tabular.kinds.base import MOMENT
from dp_synth_pipeline.tabular.schema import Column, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.sql import literal, quoted
from dp_synth_pipeline.tabular.storage import is_text
from dp_synth_pipeline.targets import sink

FOLDER = "partition="
"""How a partition's folder begins, in its table's."""

RANGE = "--"
"""What stands between the first and the last partition in the name of several that were released together."""

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
        outputs: where further tables drawn from the generator go, by name.
    """

    keys: tuple[str, ...]
    label: str
    where: str | None
    blocks: tuple[str, ...]
    folder: str
    targets: list[str]
    outputs: dict[str, str] = field(default_factory=dict)


def part(settings: ReleaseSettings, keys: Sequence[str] = ()) -> Part:
    """Return what a run over some partitions reads and charges; the whole table, if it has none.

    Raises:
        InvalidInput: if the table has partitions and none is named, or one that is not its own.
    """
    cut = settings.partitions
    if cut is None:
        return Part((), "", settings.filter, (), settings.name, settings.targets, _outputs(settings))
    values = None if cut.values is None else set(cut.values)
    if not keys or (values is not None and not set(keys) <= values):
        raise InvalidInput(
            f"{settings.name} has partitions, and each run says which ones it refreshes: choose a partition, or a range."
        )
    label = folded_label(keys)
    row_predicate = predicate(cut, keys, settings.source)
    targets = [_partition_target(t, label) for t in settings.targets]
    outputs = {name: _partition_target(t, label) for name, t in _outputs(settings).items()}
    for target in (*targets, *outputs.values()):
        sink.check_spared(target, settings.read)
    return Part(
        tuple(keys),
        label,
        row_predicate if settings.filter is None else f"({settings.filter}\n) AND {row_predicate}",
        charged_blocks(cut, keys) if settings.charges_blocks else (),
        f"{settings.name}/{FOLDER}{label}",
        targets,
        outputs,
    )


def _outputs(settings: ReleaseSettings) -> dict[str, str]:
    return {name: output.target for name, output in settings.generation.outputs.items()}


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


def narrowed(schema: TableSchema, settings: ReleaseSettings, keys: Sequence[str]) -> TableSchema:
    """Return a table's columns with what a run's partitions say of their own: which values it has, and that none is null.

    Which rows a run reads is public, so this costs nothing, and each drawn row belongs to the partitions it was drawn for.
    What a person declared of the column stays as it is.
    """
    cut = settings.partitions
    if cut is None or not keys:
        return schema
    columns = (_in_partitions(c, cut, keys) if c.name == cut.column and c.kind.learned else c for c in schema)
    return TableSchema(tuple(columns))


def _in_partitions(column: Column, cut: PartitionSettings, keys: Sequence[str]) -> Column:
    if column.nulls is NullPolicy.KEEP and column.base is None:
        column = replace(column, nulls=NullPolicy.MODE)  # no row read has one, so what noise adds goes to a value
    if any(fact in column.declared for fact in ("categories", "lower", "upper")) or column.base is not None:
        return column
    if cut.values is not None:
        is_plain_text = column.kind.categorical and is_text(column.arrow_type)
        return replace(column, categories=tuple(keys)) if is_plain_text else column
    if column.kind.family != MOMENT:
        return column
    windows = _windows(cut, keys)
    first, end = windows[0][0], windows[-1][1]
    last = end - timedelta(1) if column.kind.whole else datetime.combine(end, time()) - timedelta(microseconds=1)
    lower, upper = (column.kind.bound(f"{edge}", column.name) for edge in (first, last))
    return replace(column, lower=lower, upper=upper)


def _windows(cut: PartitionSettings, keys: Sequence[str]) -> list[tuple[date, date]]:
    """Return what some partitions cover, half open; what adjoins or overlaps is joined.

    Raises:
        InvalidInput: if a key is not the first day of a window: a day inside one would name another block.
    """
    windows: list[tuple[date, date]] = []
    for start, end in sorted(_covered(cut, key) for key in keys):
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
    return windows


def _covered(cut: PartitionSettings, key: str) -> tuple[date, date]:
    """Return the time from the first to the last window of a partition, half open; none before the table's first one."""
    start, end = _window(cut, key)
    for _ in range(1, cut.windows or 1):
        earlier, _ = _containing(str(cut.cadence), start - timedelta(1))
        if earlier < date.fromisoformat(str(cut.start)):
            break
        start = earlier
    return start, end


def _window(cut: PartitionSettings, key: str) -> tuple[date, date]:
    try:
        day = date.fromisoformat(key)
    except ValueError:
        day = date.min
    start, end = _containing(str(cut.cadence), day)
    if f"{start}" != key or start < date.fromisoformat(str(cut.start)):
        raise InvalidInput(
            f"partitions: expected first days of {cut.cadence} windows, as in 2026-02-01; got another form."
        )
    return start, end


def _containing(cadence: str, day: date) -> tuple[date, date]:
    """Return the window of a cadence that holds a day, half open; a week begins on Monday."""
    if cadence == "monthly":
        return day.replace(day=1), (day.replace(day=28) + timedelta(4)).replace(day=1)
    days = {"daily": 1, "weekly": 7}[cadence]
    start = day - timedelta(day.weekday() % days)
    return start, start + timedelta(days)


def charged_blocks(cut: PartitionSettings, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the ledger's blocks that rows of some partitions may lie in: the column, how it is cut, and which.

    Example:
        >>> charged_blocks(PartitionSettings(column="seen", cadence="daily", start="2026-01-01"), ["2026-01-25"])
        ('seen:daily:2026-01-25',)
        >>> monthly = PartitionSettings(column="seen", cadence="monthly", start="2026-01-01", blocks="weekly")
        >>> charged_blocks(monthly, ["2026-02-01"])[:2]
        ('seen:weekly:2026-01-26', 'seen:weekly:2026-02-02')
        >>> rolling = PartitionSettings(column="seen", cadence="daily", start="2026-01-01", windows=2)
        >>> charged_blocks(rolling, ["2026-01-25"])
        ('seen:daily:2026-01-24', 'seen:daily:2026-01-25')
    """
    if cut.values is not None:
        return tuple(f"{_scheme(cut)}{_safe_label(folded(key))}" for key in keys)
    firsts: dict[date, None] = {}  # each block once, in order
    for start, end in _windows(cut, keys):
        while start < end:
            first, start = _containing(cut.cut, start)
            firsts[first] = None
    return tuple(f"{_scheme(cut)}{first}" for first in firsts)


def _scheme(cut: PartitionSettings) -> str:
    return f"{_safe_label(cut.column)}:{cut.cut}:"


def _safe_label(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else f"x-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def folded_label(keys: Sequence[str]) -> str:
    """Return what names one partition, or a range of them, in files and tables."""
    ends = [re.sub(r"[^\w.-]+", "_", k.strip()).lstrip(".") for k in (keys[0], keys[-1])]
    return ends[0] if len(keys) == 1 else RANGE.join(ends)


def _partition_target(target: str, label: str) -> str:
    """Write a partition into a target; a table's name has underscores where a folder's has dashes."""
    place, mark, query = target.partition("?")
    return place.replace(PLACE, label) + mark + query.replace(PLACE, re.sub(r"\W", "_", label))


def limits(settings: ReleaseSettings, keys: Sequence[str]) -> list[str]:
    """Return what a release card says about the partitions that a release covers."""
    cut = settings.partitions
    if cut is None or not keys:
        return []
    name, first = cut.column, keys[0] if cut.windows is None else f"{_windows(cut, keys)[0][0]}"
    extent = first if first == keys[-1] else f"{first} to {keys[-1]}"
    sentences = [
        f"It covers the rows whose {name} is in {f'the {cut.cadence} window' if cut.cadence else 'value'} {extent}."
    ]
    if settings.privacy == "none":
        return sentences
    if not settings.charges_blocks:
        return [*sentences, "The account as a whole was charged, since a unit may have rows in several partitions."]
    if settings.privacy_unit.column is not None:
        sentences.append(
            f"That each {settings.privacy_unit.column} has rows in one {_noun(cut)} only was declared; it was not checked."
        )
    charged = "Its own partition was" if cut.one_block else f"Each {_noun(cut)} of its rows was"
    return [*sentences, f"{charged} charged: a row whose value there changes later lies in two of them."]


def _noun(cut: PartitionSettings) -> str:
    return "partition" if cut.one_block else f"{cut.cut} block"


def require_blocks(ledger: Ledger, settings: ReleaseSettings) -> None:
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
    other_blocks = [b for b in ledger.blocks(account.name) if not b.startswith(_scheme(cut))]
    if other_blocks:
        raise InvalidInput(
            f"account {account.name!r} has the block {other_blocks[0]!r}, which is not cut by {_scheme(cut)[:-1]} and may "
            f"share rows with this table's partitions. {_other_cut(cut, other_blocks[0])}, or use an account of its own "
            f"for other data."
        )


def _other_cut(cut: PartitionSettings, other: str) -> str:
    """Return what to write so that partitions are charged to blocks that were cut in another way."""
    for cadence in ("daily", "weekly", "monthly") if cut.cadence else ():
        if other.startswith(_scheme(cut.model_copy(update={"blocks": cadence}))):
            return f"Write `blocks: {cadence}` under partitions, and each of its blocks that a release reads is charged"
    return "Partition in the same way"


def open_blocks(ledger: Ledger, settings: ReleaseSettings, run_part: Part, run_id: str, **request: Any) -> None:
    """Add the blocks of new partitions to an account that a person opened for blocks; nothing if they would not fit.

    Args:
        request: epsilon, delta, own_delta and purpose of the release.
    """
    if not run_part.blocks:
        return
    require_blocks(ledger, settings)
    account = settings.charge.account
    existing_blocks = set(ledger.blocks(account))
    new_blocks = [b for b in run_part.blocks if b not in existing_blocks]
    if not new_blocks:
        return
    (is_admitted,) = ledger.admitted(account, **request, each=[run_part.blocks])
    if not is_admitted:  # a refusal leaves no trace, so no block either
        ledger.preview(account, **request, blocks=[b for b in run_part.blocks if b in existing_blocks])
        ledger.preview(account, **request)
    ledger.add_blocks(account, new_blocks, why=f"new partitions of {settings.name}", who=f"run {run_id}")

"""Maps a table's partitions to privacy blocks: which rows a run reads, which blocks pay, and where the outcome lies.

Two blocks never share a row: windows are half open and of one cadence, values differ after folding, and an account's blocks
must all come from one column cut in one way. So whoever has rows in one block only is protected by that block's
balance alone (parallel composition). Whose rows may lie in several is charged to the account's own row.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.synthesis.settings import PLACE, PartitionSettings, ReleaseSettings, folded
from dp_synth_pipeline.tabular.sql import literal, quoted
from dp_synth_pipeline.tabular.targets import sink

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
        tuple(block(cut, k) for k in keys) if settings.charges_blocks else (),
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


def _windows(cut: PartitionSettings, keys: Sequence[str]) -> list[tuple[date, date]]:
    """Return the windows of some partitions, half open, adjoining ones joined.

    Raises:
        InvalidInput: if a key is not the first day of a window: a day inside one would name another block.
    """
    windows: list[tuple[date, date]] = []
    for start, end in sorted(_window(cut, key) for key in keys):
        if windows and start == windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
    return windows


def _window(cut: PartitionSettings, key: str) -> tuple[date, date]:
    try:
        start = date.fromisoformat(key)
    except ValueError:
        start = date.min
    days = {"daily": 1, "weekly": 7}.get(str(cut.cadence))
    begins = days == 1 or (start.weekday() == 0 if days else start.day == 1)
    if f"{start}" != key or not begins or start < date.fromisoformat(str(cut.start)):
        raise InvalidInput(
            f"partitions: expected first days of {cut.cadence} windows, as in 2026-02-01; got another form."
        )
    return start, start + timedelta(days) if days else (start.replace(day=28) + timedelta(4)).replace(day=1)


def block(cut: PartitionSettings, key: str) -> str:
    """Return the name of a partition's block in the ledger: the column, how it is cut, and the partition.

    Example:
        >>> block(PartitionSettings(column="seen", cadence="daily", start="2026-01-01"), "2026-01-25")
        'seen:daily:2026-01-25'
    """
    return f"{_scheme(cut)}{_safe_label(folded(key) if cut.values else key)}"


def _scheme(cut: PartitionSettings) -> str:
    return f"{_safe_label(cut.column)}:{cut.cadence or 'value'}:"


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
    name, extent = cut.column, keys[0] if len(keys) == 1 else f"{keys[0]} to {keys[-1]}"
    sentences = [
        f"It covers the rows whose {name} is in {f'the {cut.cadence} window' if cut.cadence else 'value'} {extent}."
    ]
    if settings.privacy == "none":
        return sentences
    if not settings.charges_blocks:
        return [*sentences, "The account as a whole was charged, since a unit may have rows in several partitions."]
    if settings.privacy_unit.column is not None:
        sentences.append(
            f"That each {settings.privacy_unit.column} has rows in one partition only was declared; it was not checked."
        )
    return [*sentences, "Its own partition was charged: a row whose value there changes later lies in two of them."]


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
            f"share rows with this table's partitions. Partition in the same way, or use an account of its own for "
            f"other data."
        )


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

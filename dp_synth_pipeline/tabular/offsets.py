"""Columns that hang on another one, declared by a person: `after` it, coded as an offset, or `same_as` it, not coded at all.

    discharged: {after: visited}     the model sees the column `discharged: after visited`, whole days from 0
    visited: {same_as: arrived}      the model sees nothing of it: it is the day of `arrived`
    month: {same_as: arrived, part: month}     it is the month of `arrived`, which is placed by it within its cell

So order, gap and equality come back by construction, whatever is drawn, and nothing between a snapshot and a decoded row
knows of it: profile, marginals, network and raking see one column like any other. An offset counts days between dates,
microseconds between moments and lengths, and else units. Each row gives its own offset and no other's, so a row or a person
more changes as many rows as before: sensitivities and costs stay what they are. A declaration is public, and rows that break
it are taken for the nearest that keep it. A value whose base is null comes out null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular import date_parts, text_lengths
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds.base import LENGTH, MOMENT, NUMBER, Column, lookup
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile

AFTER, SAME_AS = HANGS = "after", "same_as"
"""What a person declares: each names a column."""

FAR = 2.0**62
"""Whole numbers this far from 0 are no offset: sums of others stay within 64 bits."""

DIGITS, SINGLE_DIGITS = 15, 6
"""Decimal digits that doubles and single-precision numbers keep."""

BATCH = 1 << 17


def checked(schema: TableSchema) -> TableSchema:
    """Return the schema with the null policies that columns take over from what they are the same as.

    Raises:
        InvalidInput: if a column hangs on what it cannot, naming it, the fact and what to do.
    """
    bases = {c.name: c.base for c in schema if isinstance(c.base, str)}
    for column in schema:
        if column.part is not None:
            _check_part(column)
        if column.base is not None:
            _check_pair(column, schema)
            if found := circle(column.name, bases):
                raise InvalidInput(f"column {column.name!r}: {circle_text(found)}")
            _check_nulls(column, schema)
    columns = {c.name: c for c in schema}
    for column in ordered(schema):
        if column.same_as is not None:
            columns[column.name] = replace(column, nulls=columns[column.same_as].nulls)
    return TableSchema(tuple(columns[name] for name in schema.names))


def circle(name: str, bases: Mapping[str, Any]) -> list[str]:
    """Return the columns of the circle that a column hangs in, itself first and last; empty if there is none.

    Example:
        >>> circle("a", {"a": "b", "b": "a"}), circle("a", {"a": "b"})
        (['a', 'b', 'a'], [])
    """
    path = [name]
    while isinstance(base := bases.get(path[-1]), str) and len(path) <= len(bases):
        path.append(base)
        if base == name:
            return path
    return []


def circle_text(path: Sequence[str]) -> str:
    """Say what is wrong with a circle."""
    return f"it hangs on itself, by way of {' -> '.join(path)}; let one of these columns hang on no other."


def check_base(name: str, fact: str, base: Any, names: Sequence[str]) -> str:
    """Return the name of what a column hangs on, and refuse one that the source does not have."""
    if base not in names:
        raise InvalidInput(
            f"column {name!r}: {fact}: there is no column {base!r}; the source has: {', '.join(names)}."
            f"{nearest(base, names)}"
        )
    return base


def _check_pair(column: Column, schema: TableSchema) -> None:
    said = f"column {column.name!r}: {AFTER if column.after is not None else SAME_AS}:"
    if column.after is not None and column.same_as is not None:
        raise InvalidInput(
            f"column {column.name!r}: it is declared after and same_as another column; keep one of the two."
        )
    base = schema[check_base(column.name, AFTER if column.after is not None else SAME_AS, column.base, schema.names)]
    for one in (base,) if _is_spelled(column) else (column, base):
        if not (one.kind.learned and one.kind.numeric) or pa.types.is_time(one.arrow_type):
            what = "a time of day" if pa.types.is_time(one.arrow_type) else f"of kind {one.kind}"
            raise InvalidInput(
                f"{said} it takes numbers, dates, datetimes or durations on both sides, and {one.name!r} is {what}; declare "
                f"another kind, or another column."
            )
    if column.part is not None:
        _check_part_of(column, base, said)
    elif column.kind.family != base.kind.family:
        raise InvalidInput(
            f"{said} {column.name!r} holds {column.kind.family} and {base.name!r} holds {base.kind.family}; name a column "
            f"of its own sort."
        )
    if column.same_as is not None and set(column.declared) - {"zone"}:
        raise InvalidInput(
            f"{said} its values are those of {base.name!r}; declare {column.declared[0]} there, and not here."
        )


def _check_part(column: Column) -> None:
    """Refuse a part that there is not, or that is no part of another column."""
    if column.part not in date_parts.PARTS:
        raise InvalidInput(
            f"column {column.name!r}: part: expected one of {', '.join(date_parts.PARTS)}, got {column.part!r}."
            f"{nearest(column.part, date_parts.PARTS)}"
        )
    if column.same_as is None:
        raise InvalidInput(
            f"column {column.name!r}: part: say of which date or datetime it is the {column.part}: {{same_as: COLUMN, part: "
            f"{column.part}}}."
        )


def _check_part_of(column: Column, base: Column, said: str) -> None:
    """Refuse a part of what has no such part, and a part that is not of its kind."""
    if date_parts.spelled(str(column.part)) and (column.part != "weekend" or column.kind.family != NUMBER):
        _check_spelled(column, said)
    elif column.kind.family != NUMBER:
        raise InvalidInput(f"{said} a {column.part} is a number, and {column.name!r} holds {column.kind.family}.")
    of_day = date_parts.PARTS[str(column.part)].of_day
    if base.kind.family != MOMENT or not (of_day or base.kind.name == "datetime"):
        having = "a date or a datetime" if of_day else "a datetime"
        raise InvalidInput(
            f"{said} part: {having} has a {column.part}, and {base.name!r} is of kind {base.kind}; name another column."
        )


def _check_spelled(column: Column, said: str) -> None:
    """Refuse a text that is no category, and a weekend that is neither a boolean nor a number."""
    kind = "boolean" if column.part == "weekend" else "category"
    if column.kind.name != kind:
        raise InvalidInput(f"{said} a {column.part} is a {kind}, and {column.name!r} is of kind {column.kind}.")


def _is_spelled(column: Column) -> bool:
    """Whether a column is a part of a date that it does not hold as a number; a weekend may be 0 or 1."""
    return column.part is not None and date_parts.spelled(column.part) and column.kind.family != NUMBER


def _check_nulls(column: Column, schema: TableSchema) -> None:
    """Refuse a policy that cannot be kept: a value whose base is null is null too."""
    if column.after is None or column.nulls is NullPolicy.KEEP:
        return
    said = f"column {column.name!r}: nulls: {column.nulls}"
    if column.nulls is NullPolicy.CONSTANT:
        raise InvalidInput(f"{said} says nothing of its offset from {column.after!r}; use another policy.")
    if schema[column.after].nulls is NullPolicy.KEEP:
        raise InvalidInput(
            f"{said} leaves none, but where {column.after!r} is null it is null too; declare what becomes of the nulls of "
            f"{column.after!r} as well."
        )


def offset_name(column: Column) -> str:
    """Return the name of the column that is modelled in place of one that comes after another."""
    return f"{before_base(column.name)}{column.after}"


def before_base(name: str) -> str:
    """Return how the name begins of a column that is modelled in place of one that comes after another."""
    return f"{name}: after "


def modelled_name(column: Column) -> str:
    """Return the name under which a column is modelled: its own, its offset's, or that of its texts' lengths."""
    if column.kind.composed:
        return text_lengths.name_of(column)
    return column.name if column.after is None else offset_name(column)


def distance(name: str, end: Column, start: Column | None = None) -> Column:
    """Return a column of distances: days between dates, lengths of time between moments, else numbers.

    Args:
        end: the column that is reached; `start`, the one from which, is of its family, and like it by default.
    """
    start = end if start is None else start
    if end.kind.name == "date":
        return Column(name, lookup("integer"), "int64", lower=0)
    if end.kind.family in (MOMENT, LENGTH):
        return Column(name, lookup("duration"), "duration[us]")
    if end.kind.whole and start.kind.whole:
        return Column(name, lookup("integer"), "int64", lower=0)
    return Column(name, lookup("decimal"), "double", lower=0)


def modelled(schema: TableSchema, *, parts: bool = True) -> TableSchema:
    """Return the columns that the profile measures and the generator models: offsets in the place of what comes after, and
    lengths in that of texts.

    Args:
        parts: whether parts of dates are modelled as well, where their dates can be placed by them.
    """
    placing = {c.name for found in placed_by(schema).values() for c in found} if parts else set()
    return TableSchema(tuple(_modelled(c, schema) for c in schema if c.same_as is None or c.name in placing))


def _modelled(column: Column, schema: TableSchema) -> Column:
    if column.kind.composed:
        return text_lengths.modelled(column)
    if column.part is not None:
        return replace(column, same_as=None, part=None)
    if column.after is None:
        return column
    found = distance(offset_name(column), column, schema[column.after])
    lower = timedelta(0) if found.kind.name == "duration" else 0
    decimals = digits_of(column) if found.kind.fractional else None
    return replace(found, nulls=column.nulls, lower=lower, decimals=decimals)


def placed_by(schema: TableSchema) -> dict[str, list[Column]]:
    """Return the parts of each date that is modelled itself, and of days that are the same as it, the coarser ones first.

    A key of dates says no more than the date itself.
    """
    found: dict[str, list[Column]] = {}
    for part in (part for part in date_parts.PARTS if part != "date_key"):
        for column in (c for c in schema if c.part == part):
            base = schema[str(column.same_as)]
            while base.same_as is not None:
                base = schema[base.same_as]
            if base.base is None:
                found.setdefault(base.name, []).append(column)
    return found


def placed_within(
    values: Mapping[str, pa.Array], schema: TableSchema, within: Callable[[str, pa.Array], np.ndarray]
) -> dict[str, pa.Array]:
    """Return drawn values of which dates have the parts that were drawn beside them, where their cells hold such a date.

    A cell of a date is days or months wide. What was learnt of the hour, or of the weekday, is told by the part alone.

    Args:
        values: the modelled columns by name.
        within: says which values of a date lie in the cells that were drawn, bool (rows,).
    """
    found = dict(values)
    for name, columns in placed_by(schema).items():
        base = schema[name]
        for column in columns:
            drawn = {str(column.part): points_of(found[column.name], column)}
            moved = _with_parts(found[name], base, drawn, np.asarray(found[name].is_null()))
            there = pa.array(np.asarray(moved.is_valid()) & within(name, moved))
            found[name] = pc.if_else(there, moved, found[name])  # type: ignore[attr-defined]
    return found


def digits_of(column: Column) -> int | None:
    """Return the digits after the point of a number, if they are known without its rows."""
    if column.kind.whole:
        return 0
    return column.arrow_type.scale if pa.types.is_decimal(column.arrow_type) else column.decimals  # type: ignore[attr-defined]


def with_offsets(table: pa.Table, schema: TableSchema) -> pa.Table:
    """Return rows with the offsets and lengths that they lack; null where the value or its base is null, or no offset can be
    so large.

    Args:
        table: rows with the columns of the source.
    """
    for column in schema:
        if column.kind.composed and text_lengths.name_of(column) not in table.column_names:
            table = table.append_column(
                text_lengths.name_of(column), text_lengths.of_texts(_array(table, column.name), column)
            )
        if column.after is not None and offset_name(column) not in table.column_names:
            base = schema[column.after]
            values = _offsets(_array(table, column.name), _array(table, base.name), column, base)
            table = table.append_column(offset_name(column), values)
    return table


def restored(
    values: Mapping[str, pa.Array], schema: TableSchema, known: Mapping[str, pa.Array] | None = None
) -> dict[str, pa.Array]:
    """Return values with the columns that hang on others: base and offset added up, or what they are the same as.

    Texts are as many blanks as they are long, until they are written.

    Args:
        values: the modelled columns by name.
        known: values of columns that stay, null where nothing is known; what hangs on them is placed by them, and what they
            hang on is moved to where they can.
    """
    found, offsets = dict(values), {c.name: c for c in modelled(schema)}
    known = {} if known is None else _moved(values, schema, known)
    for column in ordered(schema):
        if column.kind.composed:
            found[column.name] = text_lengths.blanks(found[text_lengths.name_of(column)])
        if column.base is not None:
            points, null = placed(found[column.base], schema[column.base], column)
            if column.after is not None:
                more, none = points_of(found[offset_name(column)], offsets[offset_name(column)])
                points, null = _later(points, more, column), null | none
            found[column.name] = values_at(points, null, column)
        if column.name in known and column.name in found:
            found[column.name] = pc.coalesce(known[column.name], found[column.name])  # type: ignore[attr-defined]
    return found


def _moved(values: Mapping[str, pa.Array], schema: TableSchema, known: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return what is known, and unknown bases of known values where these values and the drawn offsets have them."""
    drawn, told, offsets = restored(values, schema), dict(known), {c.name: c for c in modelled(schema)}
    fixed = _fixed(schema, known)
    for base in reversed(ordered(schema)):
        hanging = [c for c in reversed(schema.columns) if c.base == base.name and c.name in told]
        if base.name not in told or not hanging:
            continue
        moved = []
        for column in hanging:
            if column.part is None:
                end, null = points_of(told[column.name], column)
                if column.after is not None:
                    end = end - points_of(drawn[offset_name(column)], offsets[offset_name(column)])[0]
                moved.append(values_at(_back(end, drawn[base.name], base, column), null | fixed[base.name], base))
        parts = {str(c.part): points_of(told[c.name], c) for c in hanging if c.part is not None}
        if parts:
            near = pc.coalesce(*moved, drawn[base.name])  # type: ignore[attr-defined]
            moved.insert(0, _with_parts(near, base, parts, fixed[base.name]))
        told[base.name] = pc.coalesce(told[base.name], *moved)  # type: ignore[attr-defined]
    return told


def _fixed(schema: TableSchema, known: Mapping[str, pa.Array]) -> dict[str, np.ndarray]:
    """Return which values of each column are known, or the same as others that are, bool (rows,)."""
    found: dict[str, np.ndarray] = {}
    for column in ordered(schema):
        if column.name in known:
            found[column.name] = np.asarray(known[column.name].is_valid())
            if column.same_as in found and column.part is None:
                found[column.name] |= found[str(column.same_as)]
    return found


def _with_parts(
    near: pa.Array, base: Column, parts: Mapping[str, tuple[np.ndarray, np.ndarray]], fixed: np.ndarray
) -> pa.Array:
    """Return moments near to others that have the parts that are known, null where none is, or where they are fixed.

    Args:
        parts: the values of each, and which are null.
    """
    local = _local(near, base).cast(pa.timestamp("us"), safe=False)
    moments = local.fill_null(0).to_numpy(zero_copy_only=False).astype("datetime64[us]")
    for part in date_parts.PARTS:
        if part in parts:
            values, null = parts[part]
            moments = np.where(null, moments, date_parts.moved(moments, part, values.astype(np.int64)))
    unknown = np.logical_and.reduce([null for _, null in parts.values()])
    found = pa.array(moments, pa.timestamp("us"), mask=unknown | fixed)
    zone = getattr(base.arrow_type, "tz", None)
    if zone is not None:
        found = pc.assume_timezone(found, zone, ambiguous="earliest", nonexistent="latest")  # type: ignore[attr-defined]
    return found.cast(base.arrow_type, safe=False)


def _back(points: np.ndarray, drawn: pa.Array, base: Column, column: Column) -> np.ndarray:
    """Return where a base lies by points of the column that hangs on it; a moment keeps its drawn time of day."""
    if _days(base, column):
        return points_of(drawn, base)[0] + (points - placed(drawn, base, column)[0]) * grid.DAY
    return points // grid.DAY if column.kind.name == "datetime" and base.kind.name == "date" else points


def agree(table: pa.Table, schema: TableSchema) -> np.ndarray:
    """Return whether the columns of each row hang on each other as declared, bool (rows,): no other row is ever drawn.

    Args:
        table: rows with the columns of the source.
    """
    good = np.ones(table.num_rows, dtype=bool)
    for column in schema:
        if column.base is None:
            continue
        values = _array(table, column.name)
        start, none = placed(_array(table, column.base), schema[column.base], column)
        if column.after is not None:
            end, null = points_of(values, column)
            good &= null | ~none & (end >= start)
        else:
            expected = values_at(start, none, column).cast(values.type)
            same = pc.fill_null(pc.equal(values, expected), False)  # type: ignore[attr-defined]
            good &= np.asarray(same) | none & np.asarray(values.is_null())
    return good


def tied(schema: TableSchema) -> list[str]:
    """Return the names of the columns that hang on others, and of those."""
    return list(dict.fromkeys(name for c in schema if c.base is not None for name in (c.name, c.base)))


def ordered(schema: TableSchema) -> list[Column]:
    """Return the columns, each after the one that it hangs on."""
    depth: dict[str, int] = {}

    def of(column: Column) -> int:
        if column.name not in depth:
            depth[column.name] = 0 if column.base is None else 1 + of(schema[column.base])
        return depth[column.name]

    return sorted(schema, key=of)


def root(column: Column, schema: TableSchema) -> Column:
    """Return the column at the end of those that one hangs on; itself, if it hangs on none."""
    return column if column.base is None else root(schema[column.base], schema)


def write_offsets(path: Path, schema: TableSchema) -> None:
    """Add offsets and lengths to a Parquet file of rows, batch by batch; nothing changes where no column has any."""
    if any(c.after is not None or c.kind.composed for c in schema):
        rewrite(path, lambda rows: with_offsets(rows, schema))


def write_completed(path: Path, schema: TableSchema) -> None:
    """Fill, in a Parquet file whose modelled columns were completed, what hangs on them."""
    if any(c.base is not None for c in schema):
        rewrite(path, lambda rows: _completed(rows, schema))


def _completed(rows: pa.Table, schema: TableSchema) -> pa.Table:
    own = {c.name for c in schema if c.base is not None}
    values = {name: _array(rows, name) for name in rows.column_names if name not in own}
    for name, array in restored(values, schema).items():
        if name in own:
            whole = pc.coalesce(_array(rows, name), array.cast(rows.schema.field(name).type))  # type: ignore[attr-defined]
            rows = rows.set_column(rows.column_names.index(name), name, whole)
    return rows


def published(schema: TableSchema, profile: TableProfile) -> TableProfile:
    """Return what was released of the published columns: of one that hangs on another, between which ends it lies."""
    found = {c.name: c for c in profile.columns}
    for column in ordered(schema):
        if column.base is not None and column.base in found:
            offset = found.get(offset_name(column)) if column.after is not None else None
            if column.after is None or offset is not None:
                found[column.name] = _released(column, schema[column.base], found[column.base], offset)
        if column.kind.composed and text_lengths.name_of(column) in found:
            found[column.name] = text_lengths.released(column, found[text_lengths.name_of(column)])
    hidden = {modelled_name(c) for c in schema if c.after is not None or c.kind.composed}
    names = [n for n in schema.names if n in found] + [n for n in found if n not in schema.names and n not in hidden]
    return replace(profile, columns=tuple(found[name] for name in names))


def _released(column: Column, base: Column, of_base: ColumnProfile, offset: ColumnProfile | None) -> ColumnProfile:
    ends = [of_base.lower, of_base.upper]
    bins: tuple[tuple[float, float], ...] = ()
    values: tuple[Any, ...] = ()
    if column.part is not None:
        least_and_most = _ends_of_part(column.part, base, ends)
        if _is_spelled(column):
            values = date_parts.labels(column.part, least_and_most)
        elif least_and_most is not None:
            bins = ((float(least_and_most[0]), float(np.nextafter(least_and_most[1], np.inf))),)
    elif ends[0] is not None and ends[1] is not None and (offset is None or offset.lower is not None):
        low, high = in_units(np.array(ends, dtype=np.float64), base, column)
        low, high = low - _slack(base, column), high + _slack(base, column)
        if offset is not None:
            low, high = low + (offset.lower or 0), high + (offset.upper or 0)
        bins = ((float(low), float(np.maximum(high, np.nextafter(low, np.inf)))),)
    null_rate = of_base.null_rate if offset is None else offset.null_rate
    hidden = of_base.hidden or (offset is not None and offset.hidden)
    return ColumnProfile(
        column.name,
        column.kind,
        values,
        ((1 - null_rate) / len(values),) * len(values) if values else (),
        bins,
        (1 - null_rate,) if bins else (),
        other=1 - null_rate if hidden and not (bins or values) else 0.0,
        null_rate=1.0 if not (bins or values) and not hidden else null_rate,
        decimals=digits_of(column) if column.kind.fractional else None,
        declared=column.declared,
        misfits=0.0 if offset is None else offset.misfits,
    )


def _ends_of_part(part: str, base: Column, ends: Sequence[float | None]) -> tuple[int, int] | None:
    """Return the least and largest value of a part; None of a year if its base has no ends. A zone moves a day at most."""
    days = [None if end is None else int(end // (1 if base.kind.name == "date" else grid.DAY)) for end in ends]
    around = [None if d is None else np.datetime64(d + more, "D") for d, more in zip(days, (-1, 1), strict=True)]
    return date_parts.ends(part, *around)


def _slack(base: Column, column: Column) -> float:
    """Return by how much a zone's days, or rounding, may move a value beyond the sum of ends."""
    if _days(base, column):
        return 1.0
    digits = digits_of(column)
    return 0.0 if digits is None or column.kind.family != NUMBER else 10.0**-digits


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table], to: Path | None = None) -> None:
    """Change the rows of a Parquet file batch by batch, in its place or in that of another one."""
    to = path if to is None else to
    partial, file = to.with_suffix(".offsets"), pq.ParquetFile(path)
    schema = change(file.schema_arrow.empty_table()).schema
    try:
        with pq.ParquetWriter(partial, schema, compression="zstd") as out:
            for batch in file.iter_batches(BATCH):
                out.write_table(change(pa.Table.from_batches([batch])).cast(schema))
        partial.chmod(path.stat().st_mode & 0o777)
        partial.replace(to)
    finally:
        partial.unlink(missing_ok=True)


def _array(table: pa.Table, name: str) -> pa.Array:
    values = table.column(name)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def points_of(values: pa.Array, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return `(points int64 or float64 (rows,), null bool (rows,))` on the number line, 0 where null; whole ones exactly."""
    if _is_spelled(column):
        return date_parts.read(values, str(column.part))
    line, null = column.kind.line(values), np.asarray(values.is_null())
    whole = pa.types.is_integer(line.type) and not pa.types.is_uint64(line.type)
    points = line.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64 if whole else np.float64)
    lost = null | ~np.isfinite(points)
    return np.where(lost, 0, points), lost


def placed(values: pa.Array, base: Column, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return a base's points and nulls on the number line of what hangs on it; a moment's day and parts are of its zone."""
    if column.part is not None:
        return date_parts.of_moments(_local(values, base), column.part)
    points, null = points_of(_local(values, base) if _days(base, column) else values, base)
    return in_units(points, base, column), null


def _local(values: pa.Array, base: Column) -> pa.Array:
    """Return moments as clocks of their zone show them."""
    if getattr(base.arrow_type, "tz", None) is None:
        return values
    return pc.local_timestamp(values.cast(pa.timestamp("us", base.arrow_type.tz), safe=False))  # type: ignore[attr-defined]


def _days(base: Column, column: Column) -> bool:
    """Whether a day hangs on a moment."""
    return column.kind.name == "date" and base.kind.name == "datetime"


def in_units(points: np.ndarray, base: Column, column: Column) -> np.ndarray:
    """Return points of a base's number line on that of another column of its family: days, or microseconds of moments."""
    if _days(base, column):
        return points // grid.DAY
    return points * grid.DAY if column.kind.name == "datetime" and base.kind.name == "date" else points


def _offsets(values: pa.Array, bases: pa.Array, column: Column, base: Column) -> pa.Array:
    """Return offsets as a snapshot holds them: whole numbers in 64 bits, others as doubles."""
    (end, null), (start, none) = points_of(values, column), placed(bases, base, column)
    with np.errstate(over="ignore"):
        gap = end.astype(np.float64) - start.astype(np.float64)
    if end.dtype == start.dtype == np.int64:
        lost = null | none | (np.abs(gap) >= FAR)
        return pa.array(np.where(lost, 0, end - start), mask=lost)
    gap = _significant(gap, end, start, single=any(pa.types.is_float32(c.arrow_type) for c in (column, base)))
    if column.kind.whole and base.kind.whole:
        lost = null | none | ~(np.abs(gap) < FAR)
        return pa.array(np.where(lost, 0, np.rint(gap)).astype(np.int64), mask=lost)
    return pa.array(gap, mask=null | none | ~np.isfinite(gap))


def _significant(x: np.ndarray, a: np.ndarray, b: np.ndarray, *, single: bool = False) -> np.ndarray:
    """Return sums or differences of `a` and `b` without the last digits that these do not have: 0.3 - 0.1 is 0.2."""
    largest = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.finfo(np.float64).tiny)
    digits = (SINGLE_DIGITS if single else DIGITS) - 1 - np.floor(np.log10(largest))
    with np.errstate(over="ignore", invalid="ignore"):
        scale = 10.0 ** np.clip(digits, -300, 300)
        rounded = np.rint(x * scale) / scale
    return np.where(np.isfinite(rounded), rounded, x)


def _later(points: np.ndarray, more: np.ndarray, column: Column) -> np.ndarray:
    """Return bases and offsets added up, at the column's ends where the sum lies beyond them, and never before the base."""
    total, digits = added(points, more, column), digits_of(column)
    if total.dtype == np.int64 or digits is None:
        return np.maximum(total, points)
    step = 10.0**-digits
    return np.maximum(total, grid.written(np.ceil(np.round(points / step, 6)) * step, digits))


def added(points: np.ndarray, more: np.ndarray, column: Column) -> np.ndarray:
    """Return sums of points as a column writes them, at its ends where they lie beyond: whole ones exactly."""
    if points.dtype == more.dtype == np.int64:
        (low, high), about = _ends(column), points.astype(np.float64) + more.astype(np.float64)
        return np.clip(np.where(np.abs(about) >= FAR, np.where(about > 0, high, low), points + more), low, high)
    total = np.where(more == 0, points, _significant(points + more, points, more))
    low, high = (None if end is None else float(grid.axis_value(end)) for end in (column.lower, column.upper))
    digits = digits_of(column)
    total = total if digits is None else grid.written(total, digits)
    return np.clip(total, low, high) if (low, high) != (None, None) else total


def _ends(column: Column) -> tuple[int, int]:
    """Return the least and largest point of a column of whole points: what its calendar, storage type and bounds hold."""
    low, high = -int(FAR), int(FAR)
    if column.kind.family == MOMENT:
        edges = column.kind.public_edges(column.arrow_type)
        low, high = int(edges[0]), int(edges[-1]) - 1
    elif exact.is_whole(column):
        least, most = exact.ends(column.arrow_type)
        low, high = max(low, least), min(high, most)
    return exact.declared_ends(column, low, high)


def values_at(points: np.ndarray, null: np.ndarray, column: Column) -> pa.Array:
    """Return points of the number line as values of the column's storage type; whole ones exactly."""
    if _is_spelled(column):
        found = date_parts.written(points, str(column.part)).cast(column.arrow_type)
        return pc.if_else(pa.array(null), pa.scalar(None, found.type), found)  # type: ignore[attr-defined]
    if points.dtype != np.int64 or not (exact.is_whole(column) or column.kind.family != NUMBER):
        return column.kind.to_arrow(points.astype(np.float64), null, column)
    if exact.is_whole(column):
        least, most = exact.ends(column.arrow_type)
        return pa.array(np.clip(points, least, min(most, 2**63 - 1)), mask=null).cast(column.arrow_type)
    values = column.kind.exactly(points, column.arrow_type)
    return pc.if_else(pa.array(null), pa.scalar(None, values.type), values)  # type: ignore[attr-defined]

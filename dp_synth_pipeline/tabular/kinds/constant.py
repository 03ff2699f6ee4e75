"""`constant`: a column with one declared value, never read and never learned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.durations import duration, microseconds
from dp_synth_pipeline.tabular.kinds.base import Column, Kind


class Constant(Kind):
    """One declared, public value in every synthetic row."""

    name = "constant"
    learned = False
    fixed = True

    def reads(self, arrow_type: pa.DataType) -> bool:
        return True

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        types = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", date: "DATE", datetime: "TIMESTAMP"}
        return types.get(type(facts.get("constant")), "VARCHAR")

    def check_declared(self, name: str, arrow_type: pa.DataType, facts: Mapping[str, Any]) -> None:
        if "constant" not in facts:
            raise InvalidInput(f"column {name!r}: kind: constant needs its value, as in 'constant: 2024', or 'null'.")

    def generated(self, column: Column, first: int, rows: int) -> pa.Array:
        return pa.repeat(scalar(column, column.constant), rows)


def scalar(column: Column, value: Any) -> pa.Scalar:
    """Return a declared value as a scalar of the column's storage type; naive datetimes of a zone are UTC."""
    target = column.arrow_type
    if value is None:
        return pa.scalar(None, target)
    if pa.types.is_duration(target):
        return pa.scalar(duration(value), target)
    if pa.types.is_time(target):
        return pa.scalar(microseconds(duration(value)), pa.int64()).cast(target)
    if pa.types.is_date(target):
        return pa.scalar(datetime.fromisoformat(str(value)).date(), target)
    if pa.types.is_timestamp(target):
        moment = datetime.fromisoformat(str(value))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return pa.scalar(aware if target.tz else aware.astimezone(UTC).replace(tzinfo=None), target)
    return pa.scalar(str(value).lower() if isinstance(value, bool) else str(value)).cast(target)

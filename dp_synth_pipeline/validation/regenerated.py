"""The check that no identifier was modelled: no encoder exists for a regenerated column, and its values follow from numbers.

Great Expectations is not asked. What a column of such a kind holds in row n is a function of n and of declared facts, so
it is made again and compared. A value that came from anywhere else would differ.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.kinds.base import Column, lookup
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation.checks import REGENERATED, Check

EXPECTATION = "expect_identifiers_to_be_regenerated"
FACTS = ("name", "storage", "pattern", "locale")


def check_for(schema: TableSchema, profile: TableProfile) -> Check:
    """Return the check of a table's regenerated columns; of a table that has none, it passes."""
    columns = [c for c in schema.published if c.kind.regenerated]
    names = ", ".join(f"{c.name} ({c.kind})" for c in columns)
    text = f"No identifier is modelled: {names} follow from the number of the row alone, and no encoder reads them."
    kwargs = {
        "columns": [{"kind": c.kind.name, **{f: getattr(c, f) for f in FACTS}} for c in columns],
        "encoded": TableCodec(schema, profile).encoded,
    }
    return Check(
        REGENERATED, None, "regenerated", True, text if columns else "No column is regenerated.", EXPECTATION, kwargs
    )


def evaluate(check: Check, table: pa.Table) -> tuple[bool, dict[str, Any]]:
    """Return whether a synthetic table keeps the check, and counts that tell which columns do not."""
    wrong = {}
    for facts in check.kwargs["columns"]:
        column = Column(kind=lookup(facts["kind"]), **{f: facts[f] for f in FACTS})
        wrong[column.name] = _others(column, table)
    encoded = [name for name in wrong if name in check.kwargs["encoded"]]
    figures = {"regenerated": len(wrong), "encoded": encoded, "from_elsewhere": {n: k for n, k in wrong.items() if k}}
    return not encoded and not figures["from_elsewhere"], figures


def _others(column: Column, table: pa.Table) -> int:
    """Count the cells that are not what the number of their row makes; of a column that is missing or ill-typed, all."""
    if table.schema.names.count(column.name) != 1 or table.schema.field(column.name).type != column.arrow_type:
        return max(1, table.num_rows)
    found = table.column(column.name)
    made = pa.chunked_array([column.kind.generated(column, 0, table.num_rows)])
    if found.equals(made):
        return 0
    return sum(a != b for a, b in zip(found.to_pylist(), made.to_pylist(), strict=True))

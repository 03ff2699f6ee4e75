"""Which columns of tables below others are looked at, of those of which nobody said anything."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.database.stages import ProfilingTable
from dp_synth_pipeline.tabular.schema import build

MOVES = {"account": pa.int64(), "day": pa.date32(), "amount": pa.float64(), "balance": pa.float64()}


def totals(columns: dict[str, Any], **asked: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what is looked at as running totals of an account's rows."""
    moves = {"source": "m.parquet", "parent": {"account": "accounts"}, "order": "day", "columns": columns}
    tables = {"accounts": {"source": "a.parquet", "key": "account"}, "moves": moves}
    settings = DatabaseSettings(database="bank", account="bank", epsilon=3, tables=tables, **asked)  # type: ignore[arg-type]
    sources = {"accounts": build({"account": pa.int64()}, {}), "moves": build(MOVES, {})}
    rows = {"accounts": SimpleNamespace(schema=sources["accounts"])}
    state = SimpleNamespace(sources=sources, rows=rows, table=lambda name: SimpleNamespace(untyped=()))
    release: Any = SimpleNamespace(settings=settings, state=state)
    return ProfilingTable("accounts")._candidates(release, settings.relations.children("accounts"))["moves"].totals


@pytest.mark.parametrize(
    ("columns", "asked", "expected"),
    [
        ({}, {}, (("balance", ("amount",)),)),
        ({"balance": {"running": False}}, {}, ()),
        ({"balance": {"running": "amount"}}, {}, ()),
        ({"balance": {"static": False}}, {}, ()),
        ({}, {"refresh": {"remember": True}}, ()),
    ],
)
def test_a_balance_is_looked_at_unless_a_person_said_what_it_is_or_codes_are_counted(columns, asked, expected):
    assert totals(columns, **asked) == expected

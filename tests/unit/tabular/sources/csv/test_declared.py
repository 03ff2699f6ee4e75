"""What a declared kind says of a CSV's dates before anything is measured."""

import duckdb
import pytest

from dp_synth_pipeline.tabular.sources.csv import declared
from dp_synth_pipeline.tabular.sources.csv.values import MOMENT, CellType


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"kind": "date"}, CellType("DATE")),
        ({"kind": "datetime"}, CellType("TIMESTAMP")),
        ({"kind": "date", "format": "%d.%m.%Y"}, None),
        ({"kind": "integer"}, None),
        ({"nulls": "keep"}, None),
        (None, None),
    ],
)
def test_dates_of_no_declared_format_are_as_iso_writes_them_where_they_must_be_known(facts, said):
    assert declared.as_iso("seen", facts) == said


def test_iso_s_ways_to_write_a_moment_are_all_read():
    found = declared.as_iso("seen", {"kind": "datetime"})
    assert found is not None
    assert found.sql != MOMENT
    cells = ["2024-05-03 10:20:30", "2024-05-03T10:20:30", "2024-05-03 10:20", "2024-05-03", "3 May", ""]
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT unnest(?) AS seen", [cells])
    values = [row[0] for row in con.execute(f"SELECT {found.value('seen')} FROM t").fetchall()]
    assert [value is None for value in values] == [False] * 4 + [True] * 2
    assert values[0] == values[1]

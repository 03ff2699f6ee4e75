"""How related tables share the signal: by the columns that are learnt with each, or as was declared."""

import math

import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.synthesis.database.sharing import Part, shares_of
from dp_synth_pipeline.tabular.schema import build

PATIENTS, VISITS = (
    Related("patients", key="patient_id"),
    {"parent": "patients", "reference": "patient_id", "max_rows": 9},
)
SOURCES = {
    "patients": build({"patient_id": pa.int64()}, {}),
    "visits": build({name: pa.int64() for name in ("patient_id", "day", "ward", "sex", "born")}, {}),
}


def shares(*, declared=None, static=(), sources=SOURCES):
    relations = Relations([PATIENTS, Related("visits", order="day", static=static, **VISITS)])
    return shares_of(declared, relations, sources)


def test_a_table_s_share_goes_by_the_square_root_of_the_columns_that_are_learnt_with_it():
    found = shares()  # how many visits, and when they begin; and the four columns of a visit but its key
    assert found["visits"] / found["patients"] == pytest.approx(math.sqrt(4 / 2))
    assert sum(found.values()) == pytest.approx(1)


def test_static_columns_are_learnt_with_the_parent():
    found = shares(static=("sex", "born"))
    assert found["visits"] / found["patients"] == pytest.approx(math.sqrt(2 / 4))


def test_what_was_declared_is_taken_as_it_is():
    assert shares(declared={"visits": 3, "patients": 1}) == {"patients": 0.25, "visits": 0.75}


def test_before_the_sources_are_read_every_table_has_a_share():
    found = shares(sources={})
    assert min(found.values()) > 0
    assert sum(found.values()) == pytest.approx(1)


def test_what_a_table_takes_and_leaves_to_those_after_it_is_the_whole():
    taken = shares()
    first, last = (Part.of(taken, name) for name in taken)
    assert (first.tables, first.tables_later, last.tables_later) == (2, 1, 0)
    assert first.share + first.later == pytest.approx(1)
    assert last.later == 0

"""Columns of a public table that group its keys are modelled beside the columns that hold these."""

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.relations import public_groups
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.schema import build

KEYS = [f"h{i}" for i in range(20)]


def hospitals(**columns) -> pa.Table:
    return pa.table({"hospital": KEYS, **columns})


def test_texts_of_few_values_group_keys_and_the_first_two_of_them_do():
    table = hospitals(
        name=[f"St. {i}" for i in range(20)],
        region=["north", "south", None, "east"] * 5,
        same=["x"] * 20,
        beds=[1, 2] * 10,
        kind=["public", "private"] * 10,
        third=["a", "b"] * 10,
    )
    assert public_groups.grouped(table, "hospital") == {
        "region": {"kind": "category", "categories": ["east", "north", "south"]},
        "kind": {"kind": "category", "categories": ["private", "public"]},
    }
    assert public_groups.grouped(table.set_column(0, "kind of key", [["a", "b"] * 10]), "kind of key")


def test_few_keys_need_no_groups():
    table = hospitals(region=["north", "south"] * 10)
    assert public_groups.grouped(table, "hospital")
    assert public_groups.grouped(table[: public_groups.FEWEST_KEYS - 1], "hospital") == {}
    assert public_groups.grouped(table[: public_groups.FEWEST_KEYS], "hospital")


def sources(facts, *more):
    table = hospitals(region=["north", "south"] * 10)
    visits = {"patient": pa.int64(), "hospital": pa.string(), **dict.fromkeys(more, pa.string())}
    return {
        "hospitals": build(dict(zip(table.column_names, table.schema.types, strict=True)), facts),
        "visits": build(visits),
    }


def test_rows_below_others_have_a_column_of_their_key_s_group():
    visits = Related("visits", parent="patients", reference="patient", refers=(("hospital", "hospitals"),))
    facts = public_groups.grouped(hospitals(region=["north", "south"] * 10), "hospital")
    (group,) = public_groups.of(visits, sources(facts))
    assert (group.column.name, group.refers, group.table, group.name) == (
        "hospital: region",
        "hospital",
        "hospitals",
        "region",
    )
    assert group.column.categories == ("north", "south")


@pytest.mark.parametrize(
    ("changed", "facts", "more"),
    [
        ({}, {}, []),
        ({"static": ("hospital",)}, None, []),
        ({"parent": None, "reference": None}, None, []),
        ({}, None, ["hospital: region"]),
        ({"refers": ()}, None, []),
    ],
    ids=["nothing groups them", "a parent carries them", "of the root", "a column is called so", "rows refer to none"],
)
def test_where_a_group_would_tell_nothing_there_is_none(changed, facts, more):
    said = {"parent": "patients", "reference": "patient", "refers": (("hospital", "hospitals"),), **changed}
    found = public_groups.grouped(hospitals(region=["north", "south"] * 10), "hospital") if facts is None else facts
    assert list(public_groups.of(Related("visits", **said), sources(found, *more))) == []
    assert list(public_groups.of(Related("visits", **said), {"visits": sources({})["visits"]})) == []


def test_codes_of_a_group_go_with_its_keys_and_what_no_row_has_with_what_no_row_has():
    never = public_groups.never(np.array([0, 1, 0]), np.array([0, 1, 2]), (3, 4))
    assert (~never).tolist() == [
        [True, False, True, False],
        [False, True, False, False],
        [False, False, False, True],
    ]

"""The row beside a row is its own parent's latest one up to that time, whoever else has rows, and whenever."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.model.histories.context import BEFORE, LAST, NONE, NOW
from dp_synth_pipeline.synthesis.database.beside import (
    Matched,
    Neighbours,
    above_of,
    alike_of,
    beside_of,
    numbers_beside,
    turns,
)
from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import TableSchema, build


def one_by_one(parent, times, known, whose, now, turn):
    """The same row by row, as the docstring says it."""
    mine = [i for i in range(len(parent)) if parent[i] == whose and known[i]]
    here, upto = [i for i in mine if times[i] == now], [i for i in mine if times[i] <= now]
    later = [times[i] - now for i in mine if times[i] > now]
    row = here[min(turn, len(here) - 1)] if here else (upto[-1] if upto else -1)
    when = (NOW if here else BEFORE) + (0 if later else LAST) if upto else NONE
    return row, when, min(later, default=-1), turn


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_what_lies_beside_a_row_is_found_as_if_one_row_after_the_other_were_looked_at(kind):
    rng = np.random.default_rng()
    for rows in (0, 1, 5, 60):
        parent = np.sort(rng.integers(0, 9, rows))
        known = rng.random(rows) < 0.9
        times = rng.integers(-4, 5, rows).astype(kind) * 1000
        order = np.lexsort((times, ~known, parent))
        times, known = times[order], known[order]
        whose, now = rng.integers(0, 11, 80), rng.integers(-5, 6, 80).astype(kind) * 1000
        turn = rng.integers(0, 3, 80)
        found = Neighbours(parent, times, known).matched(whose, now, turn)
        asked = zip(whose, now, turn, strict=True)
        assert list(zip(*found, strict=True)) == [one_by_one(parent, times, known, *each) for each in asked]


def test_what_one_parent_s_rows_find_depends_on_nobody_else_s():
    rng = np.random.default_rng()
    parent, times = np.sort(rng.integers(0, 50, 400)), rng.integers(0, 30, 400)
    times = times[np.lexsort((times, parent))]
    now, mine = np.arange(35), parent == 7
    turn = np.zeros(35, np.int64)
    whole = Neighbours(parent, times).matched(np.full(35, 7), now, turn)
    alone = Neighbours(parent[mine], times[mine]).matched(np.full(35, 7), now, turn)
    assert all((a == b).all() for a, b in zip(whole[1:], alone[1:], strict=True))
    assert (whole.taken(times[:, None]).codes == alone.taken(times[mine][:, None]).codes).all()


def test_rows_at_one_time_take_turns_and_another_time_or_parent_begins_anew():
    parent, times = np.array([0, 0, 0, 0, 1, 1]), np.array([5, 5, 5, 6, 6, 6])
    assert turns(parent, times).tolist() == [0, 1, 2, 0, 0, 1]
    assert turns(parent[:0], times[:0]).tolist() == []


def test_codes_of_rows_beside_are_none_where_there_is_no_row():
    matched = Matched(np.array([1, -1, 0]), np.array([NOW, NONE, BEFORE]), np.array([-1, 2, 2]), np.array([0, 0, 1]))
    assert matched.taken(np.array([[4, 5], [6, 7]])).codes.tolist() == [[6, 7], [-1, -1], [4, 5]]
    none = matched._replace(rows=np.array([-1]))
    assert none.taken(np.zeros((0, 2), int)).codes.tolist() == [[-1, -1]]


def codec_of(columns: dict[str, tuple]) -> SimpleNamespace:
    """Return what is looked at of a table's codec: categories by their released values, and a number line."""
    schema = build({name: facts[0] for name, facts in columns.items()}, {})

    def codec(name, values, facts):
        if not values:
            return SimpleNamespace(marginal=np.full(3, 1 / 3))
        weights = (0.8 / len(values),) * len(values)
        profile = ColumnProfile(name, str(schema[name].kind), values=tuple(values), weights=weights, **facts)
        return CategoricalCodec(schema[name], profile, keep_nulls=True)

    codecs = [codec(name, values, facts) for name, (_, values, facts) in columns.items()]
    return SimpleNamespace(columns=codecs, modelled=schema.columns, encoded=schema.names)


GAP = {"gap": (pa.int64(), (), {})}
NULLS = {"null_rate": 0.1, "other": 0.1}
OWN = codec_of({**GAP, "team": (pa.string(), ("a", "b", "c"), NULLS), "place": (pa.string(), ("x", "y"), {})})


def test_only_values_with_a_code_of_their_own_in_both_tables_are_told_to_be_as_in_the_row_beside():
    team, place = (pa.string(), ("c", "d", "a"), NULLS), (pa.string(), ("v", "w"), {})
    other = codec_of({"team": team, "sponsor": team, "gap": (pa.int64(), (), {}), "place": place})
    found = beside_of(OWN, other, "gap")  # type: ignore[arg-type]
    assert [other.encoded[i] for i in found.given] == ["team", "place"], (
        "a sponsor is in one table, and distances are not given"
    )
    assert found.namesakes == (-1, 0, -1), "no place is in both, and a number has no codes in common"
    assert found.copies == ((), (2, -1, 0, -1, 4), ()), "c is code 2 here, d nowhere, suppressed ones are not compared"
    assert [found.has_code(c) for c in range(3)] == [True, True, False]


def test_a_code_that_stands_for_many_values_and_another_type_are_never_as_in_the_row_beside():
    many = tuple(f"{n:03d}" for n in range(80))
    rare = codec_of({"team": (pa.string(), many, {}), **GAP})
    assert beside_of(rare, rare, "gap").copies[0] == (*range(63), -1)  # type: ignore[arg-type]
    typed = codec_of({**GAP, "team": (pa.bool_(), (True, False), {})})
    assert beside_of(OWN, typed, "gap").namesakes == (-1, -1, -1)  # type: ignore[arg-type]


def table_of(columns: dict[str, tuple]) -> TableCodec:
    """Return the codec of a table: of each column its type, its released values and its null rate."""
    schema = build({name: facts[0] for name, facts in columns.items()}, {})
    profiles = [
        ColumnProfile(name, schema[name].kind, tuple(values), (1 / len(values),) * len(values), null_rate=nulls)
        for name, (_, values, nulls) in columns.items()
    ]
    return TableCodec(schema, TableProfile(900, 900, "row", tuple(profiles), ()))


TOWNS = tuple("abcdefgh")
PAID = table_of({"paid: to the next": (pa.int64(), (0, 1), 0), "amount": (pa.float64(), (1.5, 2.0, 7.0), 0.1)})
ORDERED = table_of({"total": (pa.float64(), (1.5, 2.0, 900.0), 0.1), "town": (pa.string(), TOWNS, 0)})


def sources(*codecs: TableCodec):
    """Return the columns of the sources of tables, without what is derived of them."""
    return tuple(TableSchema(tuple(c for c in codec.schema if ":" not in c.name)) for codec in codecs)


def test_numbers_are_told_to_be_as_in_the_row_beside_by_their_values_and_not_by_their_codes():
    alike = alike_of(PAID, ORDERED, sources(PAID, ORDERED))
    assert alike == {"amount": "total"}
    how = beside_of(PAID, ORDERED, "paid: to the next", alike)
    assert (how.numbers, how.names) == ([1], ("paid: to the next", "total"))
    assert (how.given, how.merged) == ((0,), ((),)), "the own code of the value there is given, and no town"
    there = pa.table({"total": [1.5, 900.0, None, 2.0]})
    found = numbers_beside(PAID, how, np.array([0, 1, 2, 3, -1, 3]), there)
    own = PAID.columns[1].encode(pa.array([1.5, 7.0, None, 2.0]))
    assert found.codes[:, 0].tolist() == [*own.tolist(), -1, own[3]], (
        "of a number beyond the own ones, the nearest code"
    )
    assert found.may[:, 0].tolist() == [True, False, True, True, False, True], "which is drawn as no number of its own"
    mine = pa.chunked_array([[1.5, 900.0], [None, 2.5, 2.0, 2.0]])
    assert found.same([mine])[:, 0].tolist() == [True, False, True, False, False, True]


def test_a_number_beside_whose_null_the_own_column_does_not_have_is_none():
    without = table_of({"paid: to the next": (pa.int64(), (0, 1), 0), "amount": (pa.float64(), (1.5, 2.0, 7.0), 0)})
    how = beside_of(without, ORDERED, "paid: to the next", {"amount": "total"})
    found = numbers_beside(without, how, np.array([0]), pa.table({"total": pa.array([None], pa.float64())}))
    assert (found.codes.tolist(), found.may.tolist()) == ([[-1]], [[False]])


def test_a_number_of_more_digits_than_its_own_column_has_is_as_in_no_other_row():
    profile = ColumnProfile("amount", PAID.schema["amount"].kind, (), (), ((0.0, 10.0),), (1.0,), decimals=2)
    own = TableCodec(build({"amount": pa.float64()}, {}), TableProfile(900, 900, "row", (profile,), ()))
    how = above_of(own, ORDERED, {"amount": "total"})
    assert how is not None
    found = numbers_beside(own, how, np.arange(3), pa.table({"total": [1.25, 1.255, 0.3]}))
    assert found.may[:, 0].tolist() == [True, False, True]


def test_categories_of_other_names_are_paired_by_released_values_if_most_rows_have_several_of_them():
    def shared(values: tuple, there: tuple = TOWNS) -> dict[str, str]:
        own = table_of({"ships_to": (pa.string(), values, 0)})
        return alike_of(own, other := table_of({"town": (pa.string(), there, 0)}), sources(own, other))

    assert shared(TOWNS) == {"ships_to": "town"}
    assert shared((*TOWNS[:5], *"stuv")) == {"ships_to": "town"}
    assert shared((*TOWNS[:5], *"stuvwxyz")) == {}, "most rows have another value"
    assert shared(("y", "n", "?"), ("y", "n", "?")) == {}, "yes and no are no towns"


def test_what_is_derived_and_what_hangs_on_another_column_is_as_in_no_other_row():
    own, other = sources(PAID, ORDERED)
    assert alike_of(PAID, ORDERED, (TableSchema(()), other)) == {}
    assert alike_of(PAID, ORDERED, (own, TableSchema((other["town"],)))) == {}
    tied = SimpleNamespace(**{n: getattr(PAID, n) for n in ("encoded", "columns", "modelled")})
    tied.schema = TableSchema((*PAID.schema.columns, replace(PAID.schema["amount"], name="tax", after="amount")))
    assert alike_of(tied, ORDERED, (own, other)) == {}, "the tax would be that of another amount"
    more = SimpleNamespace(**{n: getattr(ORDERED, n) for n in ("encoded", "columns")})
    more.modelled = [replace(ORDERED.modelled[0], after="net"), ORDERED.modelled[1]]
    assert alike_of(PAID, more, (own, other)) == {}, "its codes say how much more it is than another number"


def test_a_parent_s_values_are_told_where_own_ones_may_be_the_same_and_else_none_are():
    how = above_of(PAID, ORDERED, {"amount": "total"})
    assert how is not None
    assert (how.above, how.gap, how.given, how.merged, how.namesakes) == (True, -1, (0,), ((),), (-1, 0))
    assert above_of(PAID, ORDERED, {}) is None
    town = table_of({"town": (pa.string(), TOWNS, 0)})
    how = above_of(town, ORDERED, {})
    assert how is not None
    assert (how.given, how.namesakes, how.copies) == ((), (1,), (tuple(range(8)),)), "its code is given already"
    assert Matched.above(np.array([2, 2, 5])).taken(np.arange(6)[:, None]).codes.tolist() == [[2], [2], [5]]

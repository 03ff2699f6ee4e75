"""Tables to codes and back; what holds for every table is in tests/property/test_codec.py."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.encoding.axis import LEAST_CODES, AxisCodec, worth_coding, worth_separating
from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec, OrdinalCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.encoding.nulls import fill_value, filled
from dp_synth_pipeline.tabular.encoding.support import log_within
from dp_synth_pipeline.tabular.profiling.profile import MOST_CODES, ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import Column, Kind, NullPolicy, OtherPolicy, TableSchema, build
from tests.unit.tabular.snapshots import no_noise, profile, quiet, take

RNG = np.random.default_rng()


def codec_of(table: pa.Table, folder: Path, declared: dict | None = None, scale: float = 0.18) -> TableCodec:
    taken = take(table, folder, declared)
    with no_noise():
        return TableCodec(taken.schema, profile(taken, quiet(table.num_rows, scale)))


def axis(kind: Kind, storage: str, *, keep_nulls: bool = True, **facts: Any) -> AxisCodec:
    column = Column("x", kind, storage)
    return AxisCodec(column, ColumnProfile("x", kind, **{"values": (), "weights": (), **facts}), keep_nulls=keep_nulls)


def test_codes_are_small_integers_below_their_cardinality(tmp_path: Path) -> None:
    table = pa.table({"a": RNG.integers(0, 5000, 800), "b": ["x", "y", None, "z"] * 200, "c": RNG.random(800)})
    codec = codec_of(table, tmp_path)
    codes = codec.encode(table)
    assert codes.dtype == np.int16
    assert (codes >= 0).all()
    assert (codes < codec.cardinalities).all()


def test_a_number_has_as_many_codes_as_pairs_of_it_stand_out_of_their_noise() -> None:
    assert worth_coding(1_000_000, 0.0, 200) == worth_coding(10, 0.0, 2) == MOST_CODES, "without noise"
    assert worth_coding(4_000, 3.73, 14) == LEAST_CODES, "a few thousand rows at epsilon 1"
    assert worth_coding(44_000, 1.6, 15) > 2.5 * LEAST_CODES, "a census at epsilon 2.51"
    assert worth_coding(1_000_000, 3.73, 14) == MOST_CODES
    for columns in (2, 15, 200):
        for noise in (0.5, 4.0, 100.0):
            by_rows = [worth_coding(rows, noise, columns) for rows in (1, 100, 10_000, 1_000_000)]
            assert by_rows == sorted(by_rows)
            assert worth_coding(10_000, 2 * noise, columns) <= worth_coding(10_000, noise, columns)


@pytest.mark.parametrize("most", [LEAST_CODES, 15, MOST_CODES])
def test_however_few_codes_a_number_has_its_values_are_drawn_by_their_released_weights(most: int) -> None:
    bins = tuple((float(i), float(i + 1)) for i in range(10, 70))
    facts = {"values": (0, 3, 5), "weights": (0.3, 0.05, 0.05), "bins": bins, "bin_weights": (0.01,) * 60}
    codec = axis(Kind.INTEGER, "int64", **facts, null_rate=0.0, most_codes=most)
    assert codec.cardinality <= most
    assert len(codec.heavy) == (1 if most == LEAST_CODES else 3), (
        "a value that has most of a code's share keeps its own"
    )
    codes = RNG.choice(codec.cardinality, 100_000, p=codec.marginal)
    drawn = np.asarray(codec.decode(codes, RNG))
    for value, share in ((0, 0.3), (3, 0.05), (5, 0.05), (10, 0.01), (40, 0.01), (69, 0.01)):
        assert np.mean(drawn == value) == pytest.approx(share, abs=0.0065), value
    assert (codec.encode(pa.array(drawn)) == codes).all()


def test_a_profile_of_an_earlier_version_divides_numbers_as_it_did() -> None:
    column = ColumnProfile("x", Kind.INTEGER, (), (), ((0.0, 1000.0),), (1.0,), most_codes=9)
    saved = json.loads(TableProfile(9, 9, "row", (column,)).to_json())
    assert TableProfile.from_json(json.dumps(saved))["x"].most_codes == 9
    del saved["columns"][0]["most_codes"]
    before = json.dumps(saved, indent=1)
    assert TableProfile.from_json(before)["x"].most_codes == 40
    assert TableProfile.from_json(before).to_json() == before, "what a refresh remembers is known by this text"


def test_five_thousand_categories_share_a_code_and_are_drawn_by_their_weights(tmp_path: Path) -> None:
    names = np.array([f"v{i:04d}" for i in range(5000)])
    held = np.concatenate([np.repeat(names, 4), np.repeat(names[:70], 40), np.repeat(names[70:100], 16)])
    table = pa.table({"c": pa.array(RNG.permutation(held))})
    codec = codec_of(table, tmp_path)
    (column,) = codec.columns
    assert isinstance(column, CategoricalCodec)
    assert (codec.cardinalities, column.own, len(column.values)) == ((64,), 63, 5000)
    codes = codec.encode(table)[:, 0].astype(np.int64)
    back = codec.decode(codes[:, None])["c"].to_pylist()
    own = codes < 63
    assert [b for b, o in zip(back, own, strict=True) if o] == [
        v for v, o in zip(table["c"].to_pylist(), own, strict=True) if o
    ]
    rare = [b for b, o in zip(back, own, strict=True) if not o]
    # Thirty values of weight 20 among 4,900 of weight 4 and the 7 heavy ones that did not get a code.
    share = np.isin(rare, names[70:100]).mean()
    expected = 30 * 20 / (4900 * 4 + 30 * 20 + 7 * 44)
    assert share == pytest.approx(expected, abs=6 * np.sqrt(expected / len(rare)))
    assert len(set(rare)) > 3000


def test_a_constant_column_comes_back_as_it_is(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": pa.array([7] * 100, pa.int8()),
            "s": ["only"] * 100,
            "d": pa.array([date(1950, 1, 1)] * 100),
            "f": pa.array([0.1] * 100, pa.float32()),
            "b": [True] * 100,
        }
    )
    codec = codec_of(table, tmp_path)
    assert set(codec.cardinalities) == {1}
    back = pa.table(codec.decode(codec.encode(table).astype(np.int64)).to_pydict(), schema=table.schema)
    assert back.equals(table)


def test_two_decimals_stay_two_decimals_and_a_spike_stays_a_spike(tmp_path: Path) -> None:
    paid = np.round(np.exp(RNG.normal(4, 1, 5000)), 2)
    paid[:2000] = 19.99
    hours = np.where(np.arange(5000) % 2 == 0, 40, RNG.integers(1, 99, 5000))
    table = pa.table({"paid": paid, "hours": pa.array(hours, pa.int16())})
    codec = codec_of(table, tmp_path, scale=2.0)
    back = codec.decode(codec.encode(table).astype(np.int64))
    drawn = back["paid"].to_numpy()
    assert (np.round(drawn, 2) == drawn).all()
    assert len(np.unique(drawn)) > 1000, "not only the middles of cells"
    assert ((drawn == 19.99) == (paid == 19.99)).mean() > 0.999
    assert ((back["hours"].to_numpy() == 40) == (hours == 40)).all()
    assert np.quantile(drawn, [0.5, 0.9]) == pytest.approx(np.quantile(paid, [0.5, 0.9]), rel=0.1)


@pytest.mark.parametrize("digits", [1, 2, 3, 6])
def test_decimals_that_are_stored_exactly_find_their_own_code(tmp_path: Path, digits: int) -> None:
    # Arrow's own cast of decimals to floats is off by a last digit for one in three, which would part a value from its code.
    values = [Decimal(i).scaleb(-digits) * 3 for i in range(-20, 20)]
    table = pa.table({"x": pa.array(values * 10, pa.decimal128(18, digits))})
    codec = codec_of(table, tmp_path)
    back = codec.decode(codec.encode(table).astype(np.int64))
    heavy = len(codec.columns[0].heavy)  # type: ignore[union-attr]
    assert heavy >= 30
    codes = codec.encode(table)[:, 0]
    assert [b for b, c in zip(back["x"].to_pylist(), codes, strict=True) if c < heavy] == [
        v for v, c in zip(table["x"].to_pylist(), codes, strict=True) if c < heavy
    ]
    assert back["x"].type == table["x"].type


@pytest.mark.parametrize("storage", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_cells_beyond_the_ends_of_an_integer_type_are_written_at_its_ends(storage: str) -> None:
    codec = axis(
        Kind.INTEGER,
        storage,
        bins=((-1e30, -1e29), (1e29, 1e30)),
        bin_weights=(0.5, 0.5),
        values=(3.0,),
        weights=(0.0,),
    )
    back = codec.decode(np.arange(codec.cardinality), RNG)
    info = np.iinfo(storage)
    low, high = back.to_pylist()[0], back.to_pylist()[-1]
    assert str(back.type) == storage
    assert low == info.min
    assert high == pytest.approx(info.max, rel=1e-12)


def test_the_last_integers_of_a_type_come_back_to_double_precision(tmp_path: Path) -> None:
    ends = [2**63 - 1, -(2**63), 2**53, 5]
    signed = pa.table({"x": pa.array(ends * 50), "y": pa.array([2**64 - 1, 2**63, 2**53, 5] * 50, pa.uint64())})
    codec = codec_of(signed, tmp_path)
    back = codec.decode(codec.encode(signed).astype(np.int64))
    assert back["x"].to_pylist()[:4] == pytest.approx(ends, rel=1e-15)
    assert back["y"].to_pylist()[:4] == pytest.approx([2**64 - 1, 2**63, 2**53, 5], rel=1e-15)
    assert back["x"].to_pylist()[2:4] == [2**53, 5]


@pytest.mark.parametrize("storage", ["decimal128(4, 2)", "decimal128(18, 2)", "decimal128(38, 0)"])
def test_cells_beyond_the_ends_of_a_decimal_type_are_written_at_its_ends(storage: str) -> None:
    codec = axis(Kind.DECIMAL, storage, bins=((-1e40, -1e39), (1e39, 1e40)), bin_weights=(0.5, 0.5), decimals=2)
    back = codec.decode(np.array([0, codec.cardinality - 1]), RNG)
    limit = Decimal(10) ** (back.type.precision - back.type.scale)
    assert str(back.type) == storage
    assert [float(v) for v in back.to_pylist()] == pytest.approx([-float(limit), float(limit)], rel=2e-3)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_datetimes_of_every_unit_and_zone_come_back(unit: str, zone: str | None) -> None:
    kind = pa.timestamp(unit, zone)
    moments = [datetime(1955, 3, 1, 12), datetime(2020, 7, 1, 23, 59, 59)]
    values = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp("us", zone)).cast(kind)
    points = tuple(float(v) for v in values.cast(pa.timestamp("us", zone)).cast(pa.int64()).to_pylist())
    codec = axis(Kind.DATETIME, str(kind), values=points, weights=(0.5, 0.4), null_rate=0.1, resolution=1_000_000)
    both = pa.concat_arrays([values, pa.nulls(1, kind)])
    assert codec.decode(codec.encode(both), RNG).equals(both)


def test_datetimes_beyond_the_range_of_nanoseconds_are_written_at_its_ends() -> None:
    far = (datetime(2395, 1, 1) - datetime(1970, 1, 1)).total_seconds() * 1e6
    codec = axis(Kind.DATETIME, "timestamp[ns]", values=(far,), weights=(1.0,), resolution=1)
    assert codec.decode(np.zeros(1, np.int64), RNG).cast(pa.timestamp("us"), safe=False)[0].as_py().year == 2262


def test_dates_before_1970_and_the_least_date_come_back(tmp_path: Path) -> None:
    held = [date(1, 1, 1), date(1583, 2, 28), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]
    table = pa.table({"d": pa.array(held * 20)})
    codec = codec_of(table, tmp_path)
    assert codec.decode(codec.encode(table).astype(np.int64))["d"].to_pylist() == held * 20


def test_values_without_a_code_take_the_nearest_or_the_other_code() -> None:
    numbers = axis(Kind.INTEGER, "int64", values=(10.0, 20.0), weights=(0.5, 0.5), keep_nulls=False)
    assert numbers.encode(pa.array([9, 14, 16, 10**9, None])).tolist() == [0, 0, 1, 1, 0]
    facts = ColumnProfile("c", Kind.CATEGORY, ("x", "y"), (0.6, 0.2), other=0.1, null_rate=0.1)
    named = CategoricalCodec(Column("c", Kind.CATEGORY, "string"), facts, keep_nulls=True)
    assert named.encode(pa.array(["y", "x", "stranger", None])).tolist() == [1, 0, 2, 3]
    assert named.forbidden == (2,)
    assert list(named.released) == [0, 1], "a null stands for no value"
    assert named.decode(np.array([0, 1, 2, 3]), RNG).to_pylist() == ["x", "y", None, None]


def test_a_column_of_which_nothing_was_released_decodes_to_nulls() -> None:
    nothing = axis(Kind.INTEGER, "int16")
    assert nothing.cardinality == 1
    assert nothing.encode(pa.array([1, None, 3], pa.int16())).tolist() == [0, 0, 0]
    assert nothing.decode(np.zeros(3, np.int64), RNG).equals(pa.nulls(3, pa.int16()))
    facts = ColumnProfile("c", Kind.CATEGORY, (), (), other=1.0)
    unnamed = CategoricalCodec(Column("c", Kind.CATEGORY, "string"), facts, keep_nulls=True)
    assert unnamed.forbidden == (), "something must be drawn"
    assert unnamed.decode(np.zeros(2, np.int64), RNG).to_pylist() == [None, None]


def test_marginals_are_the_released_shares_of_codes(tmp_path: Path) -> None:
    table = pa.table({"c": ["x"] * 50 + ["y"] * 30 + [None] * 20, "n": [1.5] * 60 + list(np.arange(40.0) + 2)})
    codec = codec_of(table, tmp_path)
    for codes, marginal in zip(codec.encode(table).T, codec.marginals(), strict=True):
        assert marginal.sum() == pytest.approx(1)
        assert np.bincount(codes, minlength=len(marginal)) / 100 == pytest.approx(marginal, abs=0.03)


def test_decoding_draws_within_cells_afresh(tmp_path: Path) -> None:
    table = pa.table({"x": RNG.random(2000)})
    codec = codec_of(table, tmp_path)
    codes = codec.encode(table).astype(np.int64)
    assert not codec.decode(codes)["x"].equals(codec.decode(codes)["x"])


def test_a_file_is_encoded_like_its_table_with_unit_numbers(tmp_path: Path) -> None:
    who = np.repeat(np.arange(60), 5)
    table = pa.table({"who": who, "x": RNG.integers(0, 9, 300), "c": ["a", "b", None] * 100})
    unit = PrivacyUnit("who", 5)
    taken = take(table, tmp_path, unit=unit)
    codec = TableCodec(taken.schema, profile(taken, ProfilePlan(1.0, 0.18, 1e-6, unit)))
    codes, units = codec.encode_file(taken.path, tmp_path / "codes.npy")
    assert units is not None
    assert units.tolist() == who.tolist()
    assert (codes == codec.encode(pq.read_table(taken.path))).all()
    assert (np.load(tmp_path / "codes.npy") == codes).all()
    assert not codec.decode(codes.astype(np.int64)).schema.get_field_index("__privacy_unit") >= 0


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.decimal128(12, 0)], ids=str)
def test_identifiers_number_the_rows_anew_across_batches(tmp_path: Path, kind: pa.DataType) -> None:
    held = [f"{i}" for i in range(1000, 1040)]
    table = pa.table({"id": pa.array(held).cast(kind), "x": [1, 2] * 20})
    codec = codec_of(table, tmp_path, {"id": {"kind": "identifier"}})
    parts = list(codec.decode_stream(iter([np.zeros((3, 1), np.int64), np.zeros((2, 1), np.int64)])))
    found = pa.Table.from_batches(parts)["id"]
    assert found.type == kind
    wanted = [f"id-{i:09d}" for i in range(1, 6)] if kind == pa.string() else [1, 2, 3, 4, 5]
    assert found.to_pylist() == wanted


def test_more_rows_than_a_narrow_identifier_can_count_are_numbered_too(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([i % 100 for i in range(200)], pa.int8()), "x": [1, 2] * 100})
    codec = codec_of(table, tmp_path, {"id": {"kind": "identifier"}})
    assert codec.decode(np.zeros((70_000, 1), np.int64))["id"].to_pylist()[-1] == 70_000


@pytest.mark.parametrize(
    ("held", "stored"),
    [
        (pa.decimal128(3, 1), "decimal128(19, 1)"),
        (pa.decimal128(19, 19), "decimal128(37, 19)"),
        (pa.decimal128(38, 30), "decimal128(38, 30)"),
        (pa.decimal128(38, 38), "decimal128(38, 38)"),
        (pa.decimal128(12, 2), "decimal128(12, 2)"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["identifier", "phone"])
def test_no_decimal_type_is_too_narrow_for_what_is_made_anew(
    tmp_path: Path, kind: str, held: pa.DataType, stored: str
) -> None:
    table = pa.table({"id": pa.array([Decimal(0), Decimal(0)], held), "x": [1, 2]})
    codec = codec_of(table, tmp_path, {"id": {"kind": kind}})
    drawn = codec.decode(np.zeros((2_000, 1), np.int64))["id"]
    assert str(drawn.type) == stored
    assert len(set(drawn.to_pylist())) == 2_000 or kind == "phone"
    if kind == "identifier" and held.scale < held.precision:
        assert drawn.to_pylist()[:2] == [1, 2]


def test_a_value_at_the_start_of_a_cell_does_not_share_its_code_with_the_cell() -> None:
    # 48 is named but too light for a code; the cell that begins with it counts 48 to 50 without it.
    codec = axis(
        Kind.INTEGER,
        "int64",
        values=(48.0,),
        weights=(0.0149,),
        bins=((0.0, 48.0), (48.0, 51.0), (51.0, 99.0)),
        bin_weights=(0.4, 0.1851, 0.4),
    )
    drawn = codec.decode(codec.encode(pa.array([48] * 4000 + [49] * 46_000)), RNG).to_numpy()
    assert (drawn == 48).mean() < 0.2, "49 is not written as 48"
    assert set(codec.decode(codec.encode(pa.array([50] * 300)), RNG).to_pylist()) <= {48, 49, 50}
    assert codec.marginal.sum() == pytest.approx(1)


def test_named_values_are_not_drawn_again_from_the_cells_around_them() -> None:
    bins = ((4.0, 10.0), (20.0, 21.0))
    codec = axis(Kind.INTEGER, "int64", values=(5.0, 7.0), weights=(0.3, 0.3), bins=bins, bin_weights=(0.3, 0.1))
    groups = np.arange(2, codec.cardinality).repeat(300)
    assert set(codec.decode(groups, RNG).to_pylist()) == {4, 6, 8, 9, 20}


def test_a_cell_of_nothing_but_a_named_value_goes() -> None:
    codec = axis(Kind.INTEGER, "int64", values=(5.0,), weights=(0.9,), bins=((5.0, 6.0),), bin_weights=(0.1,))
    assert (codec.cardinality, codec.marginal.tolist()) == (1, [1.0])


def test_a_cell_finer_than_the_digits_that_are_written_goes() -> None:
    bins = ((-1e-9, 1e-9), (1.0, 9.0))
    codec = axis(Kind.DECIMAL, "double", values=(0.0,), weights=(0.5,), bins=bins, bin_weights=(0.2, 0.3), decimals=2)
    drawn = codec.decode(np.arange(1, codec.cardinality).repeat(50), RNG).to_numpy()
    assert drawn.min() >= 1, "nothing but the named value is written as 0"
    assert codec.encode(pa.array([1e-10])).tolist() == [0]
    alone = axis(Kind.DECIMAL, "double", bins=bins[:1], bin_weights=(1.0,), decimals=2)
    assert alone.decode(np.zeros(2, np.int64), RNG).to_pylist() == [0, 0]


def test_a_sum_of_cents_finds_the_code_of_its_cents() -> None:
    codec = axis(Kind.DECIMAL, "double", values=(0.3, 0.5), weights=(0.5, 0.5), decimals=2)
    assert codec.encode(pa.array([0.1 + 0.2, 0.5])).tolist() == [0, 1]


def ordinal(values: tuple, weights: tuple, *, categories: tuple | None = None, storage: str = "int64") -> OrdinalCodec:
    column = Column("x", Kind.ORDINAL, storage, categories=categories)
    return OrdinalCodec(column, ColumnProfile("x", Kind.ORDINAL, values, weights), keep_nulls=False)


def test_codes_of_values_have_the_values_order_and_null_has_none() -> None:
    codec = axis(
        Kind.INTEGER, "int64", values=(0.0, 50.0), weights=(0.3, 0.2), null_rate=0.1,
        bins=((1, 40), (60, 99)), bin_weights=(0.2, 0.2),
    )  # fmt: skip
    order = list(codec.order)
    assert sorted(order) == list(range(codec.cardinality - 1))
    assert codec.null not in order
    assert (np.diff(codec.centres[order]) > 0).all()
    assert order.index(0) == 0 < order.index(1) < len(order) - 1, "50, a common value, lies between the cells around it"


def test_steps_of_a_scale_have_an_order_and_names_have_none() -> None:
    facts = ColumnProfile("x", Kind.ORDINAL, ("low", "mid", "high"), (0.5, 0.3, 0.2), null_rate=0.1)
    column = Column("x", Kind.ORDINAL, "string", categories=("low", "mid", "high"))
    assert list(OrdinalCodec(column, facts, keep_nulls=True).order) == [0, 1, 2]
    assert not CategoricalCodec(column, facts, keep_nulls=True).order


def test_codes_learn_with_neighbours_only_where_none_of_them_has_nearly_all_rows() -> None:
    """As in a distance of dates that nearly always agree: around its 0 there is next to no row to learn from."""
    bins = ((1, 40), (60, 99))
    schema = TableSchema(tuple(Column(name, Kind.INTEGER, "int64") for name in ("spread", "spike", "unknown")))
    columns = (
        ColumnProfile("spread", Kind.INTEGER, (0.0,), (0.85,), bins=bins, bin_weights=(0.1, 0.05)),
        ColumnProfile("spike", Kind.INTEGER, (0.0,), (0.95,), bins=bins, bin_weights=(0.03, 0.02)),
        ColumnProfile("unknown", Kind.INTEGER, (), (), null_rate=0.95, bins=bins, bin_weights=(0.03, 0.02)),
    )
    codec = TableCodec(schema, TableProfile(100, 100, "row", columns))
    spread, spike, unknown = codec.orders()
    assert list(spread) == list(codec.columns[0].order)
    assert len(spread) == 3
    assert len(codec.columns[1].order) == 3
    assert not spike
    assert not unknown, "nulls leave next to no row either"


def test_the_rarest_ordinal_is_merged_with_its_lighter_neighbour_in_order() -> None:
    names = tuple(f"g{i:02d}" for i in range(66))
    weights = np.ones(66)
    weights[[20, 21, 40, 39]] = 0.01, 0.5, 0.02, 0.4
    codec = ordinal(names, tuple(weights / weights.sum()), categories=names, storage="string")
    codes = codec.encode(pa.array(names)).tolist()
    assert codec.cardinality == 64
    assert codes == sorted(codes)
    assert codes[20] == codes[21]
    assert codes[39] == codes[40]
    drawn = codec.decode(np.full(4000, codes[20]), RNG).to_pylist()
    assert set(drawn) == {"g20", "g21"}
    assert drawn.count("g20") < 300, "by its weight, one in 51"


def test_whole_numbers_without_a_name_take_the_nearest_ones_code() -> None:
    codec = ordinal(("1", "2", "10"), (0.4, 0.3, 0.3))
    assert codec.encode(pa.array([-5, 1, 2, 3, 7, 11, 10, 10**9])).tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert codec.forbidden == ()
    assert codec.decode(np.array([0, 1, 2]), RNG).equals(pa.array([1, 2, 10]))


def test_unnamed_values_are_drawn_as_a_label_where_that_was_declared() -> None:
    facts = ColumnProfile("c", Kind.CATEGORY, ("x", "y"), (0.5, 0.2), other=0.2, null_rate=0.1)
    column = Column("c", Kind.CATEGORY, "string", other=OtherPolicy.DRAW, other_label="rest")
    codec = CategoricalCodec(column, facts, keep_nulls=True)
    assert codec.forbidden == ()
    assert codec.decode(codec.encode(pa.array(["y", "stranger", None])), RNG).to_pylist() == ["y", "rest", None]
    assert codec.marginal == pytest.approx([0.5, 0.2, 0.2, 0.1])
    nothing = CategoricalCodec(column, ColumnProfile("c", Kind.CATEGORY, (), (), other=1.0), keep_nulls=True)
    assert nothing.decode(np.zeros(2, np.int64), RNG).to_pylist() == ["rest", "rest"]


CONSTANTS = {
    "int8": (7, 7),
    "string": ("fixed", "fixed"),
    "bool": (True, True),
    "double": (0.1, 0.1),
    "decimal128(9, 2)": ("1.50", Decimal("1.50")),
    "date32[day]": ("2021-01-31", date(2021, 1, 31)),
    "timestamp[us]": ("2021-01-31T05:00:00", datetime(2021, 1, 31, 5)),
    "timestamp[us, tz=Asia/Tokyo]": ("2021-01-31T05:00:00", datetime(2021, 1, 31, 5, tzinfo=UTC)),
    "duration[us]": ("-2 days", timedelta(days=-2)),
    "time64[us]": ("08:30:00", time(8, 30)),
    "int16": (None, None),
}


@pytest.mark.parametrize("storage", CONSTANTS)
def test_a_declared_constant_is_in_every_row_and_never_read(storage: str) -> None:
    declared, wanted = CONSTANTS[storage]
    constant = Column("k", Kind.CONSTANT, storage, constant=declared)
    schema = TableSchema((Column("c", Kind.CATEGORY, "string"), constant))
    facts = TableProfile(10, 10, "row", (ColumnProfile("c", Kind.CATEGORY, ("x",), (1.0,)),))
    codec = TableCodec(schema, facts)
    assert codec.encode(pa.table({"c": ["x", "x"]})).shape == (2, 1), "the column need not be there"
    back = codec.decode(np.zeros((3, 1), np.int64))["k"]
    assert str(back.type) == storage
    assert back.to_pylist() == [wanted] * 3


def test_a_constant_column_is_in_no_snapshot(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2] * 20, "k": ["secret", "canary"] * 20})
    taken = take(table, tmp_path, {"k": {"kind": "constant", "constant": "public"}})
    assert pq.read_schema(taken.path).names == ["a"]


def test_excluded_columns_are_not_published(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2] * 20, "secret": ["s", "t"] * 20})
    codec = codec_of(table, tmp_path, {"secret": {"kind": "excluded"}})
    assert codec.decode(codec.encode(table).astype(np.int64)).schema.names == ["a"]


def test_a_codec_is_built_from_released_facts_alone() -> None:
    schema = TableSchema((Column("c", Kind.CATEGORY, "string"),))
    facts = TableProfile(10, 10, "row", (ColumnProfile("c", Kind.CATEGORY, ("x",), (1.0,)),))
    assert TableCodec(schema, facts).decode(np.zeros((2, 1), np.int64))["c"].to_pylist() == ["x", "x"]


def test_a_named_number_comes_back_as_its_source_spells_it(tmp_path: Path) -> None:
    knots = np.array([9.0, 10.0, 15.0, 40.0]) * 1.15078  # 10.357019999999999 and 46.031200000000005 among them
    speeds = np.repeat(knots, [400, 300, 20, 280])
    assert any(v != round(v, 5) for v in knots)
    with no_noise():
        taken = take(pa.table({"speed": speeds}), tmp_path)
        found = profile(taken, quiet(len(speeds)))
    assert found["speed"].decimals == 5
    codec = TableCodec(taken.schema, found)
    back = codec.decode(codec.encode(pa.table({"speed": speeds})).astype(np.int64))
    assert sorted(back["speed"].to_pylist()) == sorted(speeds.tolist())


WHOLE = st.integers(-20, 20).map(float)
FINER = st.integers(-200, 200).map(lambda tenths: tenths / 10)


@given(
    values=st.lists(st.one_of(WHOLE, FINER), min_size=1, max_size=30, unique=True),
    bins=st.lists(st.tuples(WHOLE, st.integers(1, 9)), max_size=8),
    most=st.sampled_from([LEAST_CODES, MOST_CODES]),
)
@example(values=[-13.8], bins=[(-14.0, 1)], most=8)
@example(values=[5.5], bins=[(5.0, 2)], most=8)
@example(values=[5.5, 5.9, 6.0], bins=[(5.0, 1), (7.0, 1)], most=8)
def test_released_decimals_come_back_as_they_are_among_values_of_fewer_digits(values, bins, most) -> None:
    """A price of 9.99 among whole ones is 9.99, and never gives its digits to what is drawn beside it."""
    values, cells = sorted(values), []
    for low, width in sorted(bins):
        if not cells or low >= cells[-1][1]:
            cells.append((low, low + width))
    shares = RNG.dirichlet(np.full(len(values) + len(cells), 3.0))
    weights, bin_weights = tuple(shares[: len(values)]), tuple(shares[len(values) :])
    facts = {"values": tuple(values), "weights": weights, "bins": tuple(cells), "bin_weights": bin_weights}
    codec = axis(Kind.DECIMAL, "double", **facts, decimals=0, respelled=True, most_codes=most)
    rows = RNG.permutation(np.tile(np.arange(codec.cardinality), 500))
    drawn = codec.decode(rows, RNG)
    inside = {float(x) for low, high in cells for x in range(int(low), int(high))}
    assert set(drawn.to_pylist()) <= {*values, *inside}
    assert (codec.encode(drawn) == rows).all()
    assert codec.may_draw(drawn, rows).all()
    assert np.isfinite(log_within(codec, drawn, rows)).all()
    every = pa.array(sorted({*values, *inside}))
    assert codec.may_draw(every, codec.encode(every)).all(), "no value of a cell is lost beside a released one"
    assert np.isfinite(log_within(codec, every, codec.encode(every))).all()


def test_a_profile_of_an_earlier_version_rounds_released_values_as_it_did() -> None:
    column = ColumnProfile("x", Kind.DECIMAL, (5.5, 6.0), (0.5, 0.5), decimals=0)
    assert "respelled" not in TableProfile(9, 9, "row", (column,)).to_json()
    codec = AxisCodec(Column("x", Kind.DECIMAL, "double"), column, keep_nulls=False)
    assert codec.cardinality == 1
    assert codec.decode(np.zeros(3, np.int64), RNG).to_pylist() == [6.0, 6.0, 6.0]


def test_a_few_prices_with_cents_among_whole_ones_come_back_with_their_cents(tmp_path: Path) -> None:
    prices = pa.table({"price": np.repeat([*np.arange(5.0, 105.0), 9.99], [20] * 100 + [150])})
    with no_noise():
        taken = take(prices, tmp_path)
        found = profile(taken, quiet(prices.num_rows, 10.0))
        declared = profile(
            take(prices, tmp_path / "declared", {"price": {"decimals": 0}}), quiet(prices.num_rows, 10.0)
        )
    assert (found["price"].values, found["price"].decimals) == ((9.99,), 0), (
        "most prices are whole, and none has a name"
    )
    codec = TableCodec(taken.schema, found)
    back = np.asarray(codec.decode(codec.encode(prices).astype(np.int64))["price"])
    assert (back == 9.99).sum() == 150
    assert (back[back != 9.99] % 1 == 0).all(), "no other price has its cents"
    assert (back == 10).sum() == pytest.approx(20, abs=18), "10 keeps its room beside 9.99"
    assert not declared["price"].respelled, "declared digits are those of all values"


def test_what_fills_a_null_with_the_likeliest_value_writes_it_as_it_is() -> None:
    column = Column("x", Kind.DECIMAL, "double", nulls=NullPolicy.MODE)
    facts = ColumnProfile("x", Kind.DECIMAL, (5.5, 6.0), (0.7, 0.2), null_rate=0.1, decimals=0, respelled=True)
    assert fill_value(column, facts) == 5.5
    assert filled(column, facts).weights == pytest.approx((0.8, 0.2))


def schools(names=60, beside=0.0):
    """Return the codec of numbers that are names, of which a few rows have others."""
    weights = np.full(names, (1 - beside) / names)
    more = {"bins": ((1_000.0, 2_000.0),), "bin_weights": (beside,)} if beside else {}
    profile = ColumnProfile("school", Kind.INTEGER, tuple(range(7, 7 + names)), tuple(weights), **more)
    column = build({"school": pa.int64()})["school"]
    return AxisCodec(column, replace(profile, separate=worth_separating(profile, 30), most_codes=30), keep_nulls=True)


@pytest.mark.parametrize("beside", [0.0, 0.08])
def test_numbers_that_are_names_have_a_code_each_however_few_a_number_line_has(beside):
    codec, values = schools(beside=beside), pa.array(range(7, 67))
    codes = codec.encode(values)
    assert len(set(codes.tolist())) == 60
    assert codec.decode(codes, np.random.default_rng()).equals(values)
    assert codec.cardinality == 60 + (beside > 0)


def test_of_too_many_numbers_or_too_few_of_the_rows_heavy_ones_alone_keep_a_code():
    assert schools(76).cardinality == 30
    assert schools(60, beside=0.2).cardinality < 30


def test_whether_numbers_have_a_code_each_is_saved_and_none_of_an_earlier_version_have():
    profile = TableProfile(9, 9, "row", (ColumnProfile("x", Kind.INTEGER, (1, 2), (0.5, 0.5), separate=True),))
    saved = profile.to_json()
    assert TableProfile.from_json(saved) == profile
    facts = json.loads(saved)
    del facts["columns"][0]["separate"]
    assert not TableProfile.from_json(json.dumps(facts))["x"].separate
    assert "separate" not in replace(profile, columns=(replace(profile["x"], separate=False),)).to_json()

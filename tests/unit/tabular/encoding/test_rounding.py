"""Drawn numbers are as round as the released shares tell, and none leaves its bin."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.encoding.rounding import Rounding
from dp_synth_pipeline.tabular.encoding.support import support
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from tests.unit.tabular.snapshots import no_noise, profile, quiet, take

ROWS = 20_000


def incomes() -> np.ndarray:
    rng = np.random.default_rng()
    meant, income = rng.choice([1, 100, 1_000, 5_000], ROWS, p=[0.2, 0.1, 0.4, 0.3]), rng.lognormal(11, 0.6, ROWS)
    return (np.rint(income / meant) * meant).astype(np.int64)


def times(rows: int = ROWS) -> np.ndarray:
    rng = np.random.default_rng()
    when = rng.integers(0, 365 * 1440, rows)
    return np.where(rng.random(rows) < 0.6, when // 15 * 15, when)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, TableCodec, pa.Table, TableProfile]:
    """Return rows, their codec, what it makes of their codes, and their profile."""
    dated = pa.array((times() * 60_000_000).astype("datetime64[us]"), pa.timestamp("us"))
    rate = np.round(np.where(np.random.default_rng().random(ROWS) < 0.5, np.rint(incomes() / 999), incomes() / 999), 2)
    mass = np.random.default_rng().lognormal(8, 0.5, ROWS)
    mass = np.round(np.where(np.arange(ROWS) % 2, np.round(mass, 1), mass), 2)
    fixed = np.where(np.arange(ROWS) % 5 < 2, 50_000, np.arange(ROWS) * 5 + 1)
    columns = {"income": incomes(), "even": np.arange(ROWS), "rate": rate, "seen": dated, "mass": mass, "fixed": fixed}
    table = pa.table(columns)
    taken = take(table, tmp_path_factory.mktemp("rows"))
    with no_noise():
        known = profile(taken, quiet(ROWS, 0.18))
    codec = TableCodec(taken.schema, known)
    return table, codec, pa.Table.from_batches([codec.decode(codec.encode(table))]), known


def multiples(values: pa.ChunkedArray, step: float) -> float:
    x = values.cast(pa.int64()).to_numpy() if pa.types.is_timestamp(values.type) else values.to_numpy().astype(float)
    return float(np.isclose(x / step, np.rint(x / step), rtol=0, atol=1e-6).mean())


@pytest.mark.parametrize(
    ("column", "step"),
    [("income", 100), ("income", 1_000), ("income", 5_000), ("income", 10_000), ("even", 10), ("even", 100), ("rate", 1),
     ("rate", 0.5), ("mass", 0.1), ("mass", 1), ("seen", 60_000_000), ("seen", 900_000_000), ("seen", 3_600_000_000)],
)  # fmt: skip
def test_as_many_drawn_values_are_round_as_real_ones(
    found: tuple[pa.Table, TableCodec, pa.Table, TableProfile], column: str, step: float
) -> None:
    table, _, drawn, _ = found
    assert multiples(drawn[column], step) == pytest.approx(multiples(table[column], step), abs=0.03)


def test_rounding_moves_no_value_to_another_code(found: tuple[pa.Table, TableCodec, pa.Table, TableProfile]) -> None:
    table, codec, drawn, _ = found
    assert [c.rounding is not None for c in codec.columns] == [True, False, True, True, True, False]
    assert (codec.encode(drawn) == codec.encode(table)).all()


def test_what_a_code_stands_for_is_told_without_rounding(
    found: tuple[pa.Table, TableCodec, pa.Table, TableProfile],
) -> None:
    _, codec, _, _ = found
    income = codec.columns[0]
    assert support(income).values.equals(support(income).values)
    assert (support(income).values.to_numpy() % 100 != 0).mean() > 0.5


def test_rounded_decimals_are_written_with_the_digits_of_the_others(
    found: tuple[pa.Table, TableCodec, pa.Table, TableProfile],
) -> None:
    drawn = found[2]["mass"].to_numpy()
    assert (drawn == np.round(drawn, 2)).all()


def test_a_released_value_that_is_round_makes_no_others_round(
    found: tuple[pa.Table, TableCodec, pa.Table, TableProfile],
) -> None:
    """Two fifths of the rows are 50,000, which has a code of its own."""
    fixed = found[3]["fixed"]
    assert 50_000 in fixed.values
    assert fixed.rounded == ()


def test_a_profile_is_read_back_with_its_rounding_and_one_of_an_earlier_version_has_none(
    found: tuple[pa.Table, TableCodec, pa.Table, TableProfile],
) -> None:
    *_, known = found
    again = TableProfile.from_json(known.to_json())
    assert again == known
    assert again["income"].rounded
    even = TableProfile(1, 1, "row", (known["even"],))
    assert '"rounded"' not in even.to_json()
    assert TableProfile.from_json(even.to_json()) == even


bin_ends = st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 10**5))


@given(
    st.lists(bin_ends, min_size=1, max_size=8),
    st.lists(st.sampled_from([5.0, 10.0, 50.0, 0.5, 1000.0]), min_size=1, max_size=3, unique=True),
    st.floats(0.01, 1),
)
def test_no_value_leaves_its_bin(bins: list[tuple[int, int]], steps: list[float], part: float) -> None:
    low = np.array([b[0] for b in bins], dtype=float)
    high = low + [b[1] for b in bins]
    rounding = Rounding(low, high, [(s, part / len(steps)) for s in sorted(steps)])
    rng = np.random.default_rng()
    place, within = rng.integers(0, len(bins), 200), rng.random(200)
    x = low[place] + within * (high - low)[place]
    drawn = rounding.rounded(x, place, within, rng)
    inside = (drawn >= low[place]) & ((drawn < high[place]) | (low[place] == high[place]))
    assert inside.all()


def test_a_bin_about_a_round_value_holds_little_else_and_one_between_is_not_rounded() -> None:
    rounding = Rounding(np.array([39_900.0, 40_100.0]), np.array([40_100.0, 40_900.0]), [(1_000.0, 0.5)])
    rng = np.random.default_rng()
    within = rng.random(20_000)
    x = np.where(np.arange(20_000) % 2, 40_100 + within * 800, 39_900 + within * 200)
    drawn = rounding.rounded(x, np.arange(20_000) % 2, within, rng)
    assert (drawn[1::2] == x[1::2]).all()
    assert (drawn[::2] == 40_000).mean() == pytest.approx(1_000 / (1_000 + 200), abs=0.02)

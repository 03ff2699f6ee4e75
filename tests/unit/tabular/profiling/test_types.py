"""The types of a CSV's columns are chosen from noisy counts: as a reader of all cells would choose them, at a small cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis import allocation
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.profiling import types
from dp_synth_pipeline.tabular.profiling.types import TypesPlan
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.csv.declared import Untyped
from tests.unit.tabular.snapshots import no_noise, read

pytestmark = pytest.mark.slow

ROWS = 5000
Cell = Callable[[int, np.random.Generator], str]

KINDS: dict[str, Cell] = {
    "int64": lambda i, r: str(r.integers(-50, 5000)),
    "double": lambda i, r: f"{r.normal(0, 300):.2f}",
    "string": lambda i, r: str(r.choice(["Rome", "Oslo", "Lima", "NA"])),
    "bool": lambda i, r: str(r.choice(["true", "false"])),
    "date32[day] %Y-%m-%d": lambda i, r: f"20{r.integers(10, 25)}-{r.integers(1, 13):02d}-{r.integers(1, 29):02d}",
    "date32[day] %d.%m.%Y": lambda i, r: f"{r.integers(1, 29):02d}.{r.integers(1, 13):02d}.20{r.integers(10, 25)}",
    "date32[day] %m/%d/%Y": lambda i, r: f"{r.integers(1, 13):02d}/{r.integers(1, 29):02d}/20{r.integers(10, 25)}",
    "timestamp[us] %Y-%m-%d %H:%M:%S": lambda i, r: f"2024-{r.integers(1, 13):02d}-11 {r.integers(10, 24)}:30:15",
    "timestamp[us, tz=UTC] %Y-%m-%dT%H:%M:%SZ": lambda i, r: (
        f"2024-{r.integers(1, 13):02d}-11T{r.integers(10, 24)}:30:15Z"
    ),
    "time64[us] %H:%M": lambda i, r: f"{r.integers(0, 24):02d}:{r.integers(0, 60):02d}",
}
CODES: Cell = lambda i, r: f"{r.integers(0, 50_000):05d}"  # noqa: E731
UNIQUE: Cell = lambda i, r: f"person {i}"  # noqa: E731
NULLS: Cell = lambda i, r: ""  # noqa: E731
OFTEN_NULL: Cell = lambda i, r: str(r.choice(["", "NA", str(r.integers(0, 90))]))  # noqa: E731
SCALE: Cell = lambda i, r: str(i % 4)  # noqa: E731
SKEWED: Cell = lambda i, r: "0" if r.random() < 0.9 else str(r.integers(0, 99_999))  # noqa: E731


def forty() -> dict[str, Cell]:
    """Forty columns, ten kinds three times, and ten that are harder; each named by the type that reading all cells finds."""
    columns = {f"{kind}|{i}": cell for i in range(3) for kind, cell in KINDS.items()}
    odd = {"string": (CODES, UNIQUE, NULLS, CODES), "int64": (OFTEN_NULL, SCALE, SKEWED, SKEWED, OFTEN_NULL, SCALE)}
    return columns | {f"{kind}|odd {i}": cell for kind, cells in odd.items() for i, cell in enumerate(cells)}


def written(path: Path, columns: dict[str, Cell], rows: int) -> Path:
    rng = np.random.default_rng()
    lines = [",".join(f'"{n}"' for n in columns)]
    lines += [",".join(cell(i, rng) for cell in columns.values()) for i in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def noise(columns: int, rows: int, epsilon: float, **terms: object) -> float:
    settings = ReleaseSettings.model_validate({"source": "t.csv", "account": "a", "epsilon": epsilon, **terms})
    asked = allocation.BudgetRequest.of(settings, 1e-5)
    return allocation.plan_types(settings, asked, columns, population=rows).scale


@pytest.mark.parametrize("exact", [True, False], ids=["without noise", "at epsilon 1"])
def test_forty_mixed_columns_of_five_thousand_rows_are_typed_as_reading_all_cells_does(
    tmp_path: Path, exact: bool
) -> None:
    path = written(tmp_path / "t.csv", forty(), ROWS)
    scale = 1e-3 if exact else noise(40, ROWS, 1.0)
    taken = read(str(path), tmp_path / "s.parquet", scale=scale)
    found = {c.name: " ".join(filter(None, (c.storage, c.format))) for c in taken.schema}
    # Under noise a column is typed otherwise with a probability of 0.0004: a number as a code with 0.0002, a date as text.
    # Three of the forty are so by chance with 8e-7, and three columns or more are of every kind that could be typed wrongly.
    wrong = [(wanted, found[wanted]) for wanted in forty() if found[wanted] != wanted.partition("|")[0]]
    assert len(wrong) <= (0 if exact else 2), wrong
    assert list(found) == list(forty())


def test_one_odd_cell_changes_no_type_and_is_a_null(tmp_path: Path) -> None:
    """Before types were measured, one such cell turned the column to text, and its value was there to be read."""
    for odd, kind in (("unknown", "int64"), ("50.5", "int64"), ("$5", "int64")):
        cells = [str(i % 90) for i in range(ROWS)]
        cells[ROWS // 2] = odd
        (tmp_path / "t.csv").write_text("age,k\n" + "".join(f"{c},x\n" for c in cells))
        taken = read(str(tmp_path / "t.csv"), tmp_path / "s.parquet")
        assert taken.schema["age"].storage == kind
        column = pq.read_table(taken.path)["age"]
        assert column.null_count == (1 if odd != "$5" else 0)


def test_one_odd_row_of_another_block_changes_nothing_of_this_one(tmp_path: Path) -> None:
    rows = "".join(f"{'AD'[i % 2]},{i % 90}\n" for i in range(400))
    blocks = []
    for name, odd in (("plain", ""), ("odd", "A,unknown\nA,50.5\n" * 200)):
        (tmp_path / f"{name}.csv").write_text("block,age\n" + rows + odd)
        found = source.parse(str(tmp_path / f"{name}.csv"), where="block = 'D'")
        taken = ingestion.snapshot(found, tmp_path / f"{name}.parquet")
        with no_noise():
            plan = TypesPlan(1e-3, 1)
            measured = types.measure(taken.path, [Untyped("age")], plan, Odometer(plan.events))
        blocks.append((taken.digest, taken.units, taken.set_aside, measured))
    assert blocks[0] == blocks[1]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_where_noise_hides_all_cells_a_column_is_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    path = written(tmp_path / "t.csv", {"a": KINDS["int64"], "b": KINDS["date32[day] %Y-%m-%d"]}, rows)
    taken, plan = ingestion.snapshot(source.parse(str(path)), tmp_path / "s.parquet"), TypesPlan(30.0, 2)
    honest, known = types._counts, {}

    def read_once(con: object, key: str, name: str, names: Sequence[str]) -> np.ndarray:
        if (key, name) not in known:
            known[key, name] = honest(con, key, name, names)
        return known[key, name]

    monkeypatch.setattr(types, "_counts", read_once)
    told = [types.measure(taken.path, [Untyped("a"), Untyped("b")], plan, Odometer(plan.events)) for _ in range(60)]
    found = [c.storage for one in told for c in ingestion.typed_schema(one.cells, {})]
    # Nine classes of cells make a type of a column if noise alone has 4.5 deviations: a chance of 3e-5 a column. Of 120
    # columns 0.004 are so, and two or more with a probability of 7e-6.
    assert len(found) == 120
    assert sum(storage != "string" for storage in found) <= 1


def test_types_take_a_small_part_of_the_profiles_budget_and_next_to_none_of_a_large_table(tmp_path: Path) -> None:
    def share(rows: int) -> float:
        base = allocation.calibration.gaussian_noise(0.98, 1e-5 - 5e-9)
        return types.weight(40) * (base / noise(40, rows, 1.0)) ** 2

    assert share(500) == pytest.approx(allocation.MOST_TYPES * allocation.MOST_PROFILE)
    assert share(1_000_000) < 2e-4


@pytest.mark.parametrize("max_rows", [1, 3])
def test_what_is_charged_is_all_that_is_drawn(tmp_path: Path, max_rows: int) -> None:
    """The squared ratios of sensitivity to noise that were used add up to those that were charged."""
    names = list(KINDS)
    path = written(tmp_path / "t.csv", KINDS, 2000)
    taken = ingestion.snapshot(source.parse(str(path)), tmp_path / "s.parquet")
    plan = TypesPlan(10.0, len(names), PrivacyUnit("who", max_rows) if max_rows > 1 else PrivacyUnit())
    odometer = Odometer(plan.events)
    types.measure(taken.path, [Untyped(n) for n in names], plan, odometer)
    used, charged = (
        [e.count / e.noise_multiplier**2 for e in events if isinstance(e, Gaussian)]
        for events in (odometer.used, plan.events)
    )
    assert used == pytest.approx(charged)


def test_a_type_may_be_unfit_for_a_share_of_cells_which_is_told_with_noise(tmp_path: Path) -> None:
    cells = ["7"] * 995 + ["x"] * 5
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{c},1\n" for c in cells) + "1,2,3\n" * 40)
    taken = ingestion.snapshot(source.parse(str(tmp_path / "t.csv")), tmp_path / "s.parquet")
    plan = TypesPlan(0.1, 2)
    found = types.measure(taken.path, [Untyped("a"), Untyped("b")], plan, Odometer(plan.events), taken.set_aside)
    assert found.misfits == {"a": pytest.approx(0.005, abs=0.002)}
    assert found.set_aside == pytest.approx(40, abs=2)

"""Whatever table a person points at: released with its own types and values, or refused in one sentence.

What is public (types that nobody can draw, names) is refused at no charge. After rows were read, released numbers alone end
a release: what was charged for them stays charged. Neither depends on what the cells hold.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.synthesis import profile_cache
from dp_synth_pipeline.tabular import recognition
from dp_synth_pipeline.tabular.kinds import Kind, kind_of
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.sources import ingestion, source
from tests.adversarial.killing import Runner
from tests.adversarial.odd_tables import NUMBER, TEXT, Case, cases

ACCOUNT, EPSILON = "odd", 4.0
TESTING = ("--purpose", "testing")
LIMIT = 300
"""Seconds after which a release hangs."""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A warm process that runs each release in a fork: no state of another test is in it."""
    folder = tmp_path_factory.mktemp("odd") / "work"
    folder.mkdir()
    started = Runner(folder, DAGSTER_HOME="")
    yield started
    started.close()


def check(runner: Runner, case: Case) -> int:
    """Release one odd table and hold what was promised against what came; return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="odd-"))
    try:
        address = case.write(folder)
        book = Ledger.open(f"sqlite:///{folder / 'home' / 'ledger.db'}")
        book.open_account(ACCOUNT, epsilon=EPSILON, delta=1e-5, rule="plan", why="test")
        out = folder / "out.parquet"
        asked = ["synthesize", address, "--out", str(out), "--epsilon", str(EPSILON), "--account", ACCOUNT]
        done = runner.run(*asked, *TESTING, limit=LIMIT, environment={"DP_SYNTH_HOME": str(folder / "home")})
        code, told = done.code, done.text
        note(f"exit code {code}: {told}")
        if code == 1:  # of next to no row, drawn rows may fail a check: of released numbers, by drawn rows
            assert "blocking checks failed" in told
            assert case.table.num_rows < 30, told
            return code
        assert code in (0, 2, 3), f"exit code {code}: {told}"
        assert "Traceback" not in told
        assert TEXT not in told, "a cell was quoted"
        assert str(NUMBER) not in told, "a cell was quoted"
        if code:
            refused(told, book, case)
        else:
            released(case, address, out, folder)
        return code
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def refused(told: str, book: Ledger, case: Case) -> None:
    """One message with a next step; nothing charged, or what the noisy numbers cost that the message is about."""
    assert len(re.findall(r"\b(?:Not released|Usage):", told)) <= 1, told
    message = told.split("ledger.db", 1)[-1]
    assert re.search(
        r"(?i)\b(write|declare|name|leave|rename|cast|save|mend|add|clean|give|use|export|prefix|spend|check)\b",
        message,
    ), f"no next step: {message}"
    (release,) = book.releases(ACCOUNT) or (None,)
    if release is None or release.state == "voided":
        assert book.balance(ACCOUNT).epsilon_left == pytest.approx(EPSILON), f"charged, though refused: {told}"
    elif release.state == "settled":
        assert re.search("noisy number of (its|rows)", message), told
        before = {"row count", "types", "ordered dates", "formulas", "profile"}
        assert {e.mechanism for e in book.entries(release_id=release.id)} <= before
    else:
        assert release.state == "reserved", "after rows were read nothing is given back by itself"
        assert "the source could not be read to its end" in message
        assert case.spelling == "csv", "only a CSV can be damaged here"


def released(case: Case, address: str, out: Path, folder: Path) -> None:
    """The types are the source's, every value is one that the type can hold, and named values are the source's own."""
    made = pq.read_table(out)
    storage = ingestion.column_types(source.parse(address))
    kept = {n: t for n, t in storage.items() if n in made.column_names}
    assert set(storage) - set(kept) <= {"__index_level_0__"}
    for name, arrow_type in kept.items():
        if arrow_type is not None:
            kind = recognition.by_name(name, arrow_type) or kind_of(name, arrow_type)  # a narrow `id` is numbered wider
            assert str(made.schema.field(name).type) == kind.storage(arrow_type), name
        made.column(name).validate(full=True)
    if case.spelling == "csv":
        return
    profile = TableProfile.from_json(
        next((folder / "home" / "store" / "releasable").rglob(profile_cache.PROFILE)).read_text()
    )
    # DuckDB gives a name that differs from another one only in case a number, and keeps the columns' order.
    held = case.table.rename_columns(list(storage)) if case.spelling == "duckdb" else case.table
    for facts in profile.columns:
        before, after = (set(_plain(t.column(facts.name))) - {None} for t in (held, made))
        if facts.decimals is not None:  # as many digits as noise let be seen are those that its values are written with
            before |= {round(value, facts.decimals) for value in before if isinstance(value, float) and isfinite(value)}
        both = facts.kind is Kind.BOOLEAN  # whose two names are public, whatever the source holds
        if not facts.bins and not both and facts.name in kept:
            strange = sorted(map(str, after - before))
            assert not strange, f"{facts.name}: {strange[:5]} is none of the source's values"


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Return cells as they compare: text of any width as text, lengths of time and moments as microseconds."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    if pa.types.is_time(column.type):
        column = column.cast(pa.time64("us")).cast(pa.int64())
    if pa.types.is_duration(column.type):
        column = column.cast(pa.duration("us")).cast(pa.int64())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    return column.to_pylist()


def test_dates_beyond_those_that_python_has_end_no_release_and_tell_nothing(runner: Runner, tmp_path: Path) -> None:
    """A report that failed on them would say, free and in its exit code, that a row holds one."""
    days = [3_663_000 if i % 10 == 0 else -800_000 if i % 10 == 1 else 19_000 + i for i in range(300)]
    moments = [d * 86_400_000_000 for d in days]
    columns = {
        "day": pa.array(days, pa.int32()).cast(pa.date32()),
        "moment": pa.array(moments).cast(pa.timestamp("us", "America/New_York")),
        "x": [i % 7 for i in range(300)],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    out, asked = tmp_path / "o.parquet", ("--epsilon", "4", "--open-account", *TESTING)
    done = runner.run(
        "synthesize",
        str(tmp_path / "t.parquet"),
        "--out",
        str(out),
        *asked,
        limit=LIMIT,
        environment={"DP_SYNTH_HOME": str(tmp_path / "home")},
    )
    assert done.code == 0, done.text
    assert pq.read_table(out).schema.field("moment").type == pa.timestamp("us", "America/New_York")


@pytest.mark.slow
@settings(max_examples=25, derandomize=True, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_an_odd_table_is_released_as_it_is_or_refused_at_no_charge(runner: Runner, case: Case) -> None:
    check(runner, case)


@pytest.mark.nightly
@settings(max_examples=500, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_five_hundred_odd_tables_are_released_as_they_are_or_refused_at_no_charge(runner: Runner, case: Case) -> None:
    check(runner, case)

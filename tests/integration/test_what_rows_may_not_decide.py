"""What is refused, and when: by public facts before a row is read, by released numbers after, and by rows never."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from dp_synth_pipeline.cli import summary
from dp_synth_pipeline.errors import InvalidInput, ReadingFailed, Unlearnable
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.reporting import quality_report, related_quality_report, report
from dp_synth_pipeline.synthesis import stages
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.schema import TableSchema

ROWS = 3000


class Place:
    """A table, a ledger and a store; releases go no further than their profile."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, Store(folder / "store")
        self.ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
        self.ledger.open_account("people", epsilon=60.0, delta=1e-4, why="test")
        rng = np.random.default_rng()
        self.rows = pd.DataFrame(
            {
                "age": rng.integers(18, 80, ROWS),
                "born": [f"{1 + i % 28:02d}.{1 + i % 12:02d}.1990" for i in range(ROWS)],
                "lone": np.r_[0, np.ones(ROWS - 1, int)],
            }
        )
        self.rows.to_parquet(folder / "people.parquet")
        self.csv = folder / "people.csv"
        self.rows.to_csv(self.csv, index=False)

    def begin(self, **terms: object) -> Release:
        facts = {"source": str(self.csv), "account": "people", "epsilon": 2.0, "table": "people", **terms}
        settings, key = ReleaseSettings.model_validate(facts), f"k{len(self.ledger.releases())}"
        return Release.reserve(settings, self.ledger, self.store, key=key, run_id=key)

    def learn(self, **terms: object) -> Release:
        release = self.begin(**terms)
        release.run(stages.Ingestion())
        release.run(stages.Profiling())
        return release

    def mechanisms(self, release: Release) -> list[str]:
        return [e.mechanism for e in self.ledger.entries(release_id=release.id)]

    @property
    def last(self) -> str:
        return self.ledger.releases("people")[-1].state


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def counting(monkeypatch: pytest.MonkeyPatch, answer: int) -> None:
    """Let every noisy count be the same number, whatever the rows are."""
    honest = mechanisms.noisy_count
    monkeypatch.setattr(mechanisms, "noisy_count", lambda count, **how: (answer, honest(count, **how)[1]))


@pytest.mark.parametrize("answer", [1, 400])
@pytest.mark.parametrize("source", ["people.csv", "people.parquet"])
def test_no_row_one_row_and_many_rows_are_told_apart_by_the_noisy_count_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch, answer: int, source: str
) -> None:
    """A filter that keeps no row, one or many once was told by a refusal, exact, at no charge, as often as one liked."""
    counting(monkeypatch, answer)
    told = []
    for predicate in ("lone = 7", "lone = 0", "lone = 1"):
        columns = {"lone": {"kind": "integer"}}
        release = place.begin(filter=predicate, source=str(place.folder / source), columns=columns, reuse_profile=False)
        release.run(stages.Ingestion())
        try:
            release.run(stages.Profiling())
            told.append("profile")
        except Unlearnable as error:
            told.append(str(error))
        record = place.ledger.release(release.id)
        told[-1] += f" {record.state} {record.charged_cost} {place.mechanisms(release)}"
    assert len(set(told)) == 1
    assert ("nothing to learn" in told[0]) == ("population: N" in told[0]) == (answer == 1)
    assert ("settled" in told[0]) == (answer == 1), "what was charged stays charged, the rest is given back"
    assert "voided" not in told[0]


def test_a_fixed_delta_is_held_against_the_noisy_count(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    counting(monkeypatch, 9_999)
    place.learn(delta=1e-4, reuse_profile=False)
    counting(monkeypatch, 10_001)
    with pytest.raises(Unlearnable, match=r"0\.0001 is not below one over the noisy number of units, 10,001"):
        place.learn(delta=1e-4, reuse_profile=False)
    assert place.last == "settled"


def test_a_file_that_cannot_be_read_to_its_end_is_told_in_one_sentence_and_keeps_its_reservation(place: Place) -> None:
    place.csv.write_text(place.csv.read_text() + '7,"SECRET-CELL\n')
    release = place.begin()
    with pytest.raises(ReadingFailed) as caught:
        release.run(stages.Ingestion())
    details = release.restricted / "reading-failed.txt"
    assert str(caught.value) == str(ReadingFailed(details))
    assert f"line {ROWS + 2} is not valid CSV" in details.read_text()
    assert details.stat().st_mode & 0o077 == 0
    assert place.last == "reserved", "rows were read, so nothing is given back by itself"


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"columns": {"no_such": {"kind": "category"}}}, "'no_such' is not in the source"),
        ({"filter": "no_such = 1"}, "filter: DuckDB cannot apply it"),
        ({"filter": "age > 30"}, "compares age by order, and nobody declared"),
        ({"validation": {"predict": "no_such"}}, "predict"),
    ],
    ids=["column", "filter", "text", "predict"],
)
def test_what_is_public_is_refused_before_a_row_is_read_and_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, terms: dict, message: str
) -> None:
    monkeypatch.setattr("dp_synth_pipeline.tabular.sources.ingestion.Opened.copy", lambda *_: pytest.fail("read"))
    with pytest.raises(InvalidInput, match=message):
        place.begin(**terms).run(stages.Ingestion())
    assert place.last == "voided"


def test_a_zone_that_nobody_knows_is_refused_before_a_row_is_read_and_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_synth_pipeline.tabular.sources.ingestion.Opened.copy", lambda *_: pytest.fail("read"))
    seen = pa.array(range(ROWS), pa.timestamp("us", "Foo/Bar"))
    pq.write_table(pa.table({"age": range(ROWS), "seen": seen}), place.folder / "zoned.parquet")
    release = place.begin(source=str(place.folder / "zoned.parquet"))
    with pytest.raises(InvalidInput, match=r"'seen'.*'Foo/Bar'"):
        release.run(stages.Ingestion())
    assert place.last == "voided"
    assert place.mechanisms(release) == []


def test_types_are_charged_between_the_row_count_and_the_profile_and_are_reused_with_it(place: Place) -> None:
    first = place.learn()
    assert place.mechanisms(first) == ["row count", "types", "profile"]
    types = {c.name: (c.storage, c.format) for c in first.schema}
    assert types == {"age": ("int64", None), "born": ("date32[day]", "%d.%m.%Y"), "lone": ("int64", None)}
    place.csv.write_text(place.csv.read_text() + "unknown,x,x\n" * 2000)
    second = place.learn()
    assert place.mechanisms(second) == [], "a refresh with a reused profile pays nothing for types"
    assert {c.name: (c.storage, c.format) for c in second.schema} == types, "and has the same ones"
    assert pq.read_table(second.state.path("snapshot"))["age"].null_count == 2000
    renewed = place.learn(reuse_profile=False)
    assert renewed.schema["age"].storage == "string"


def test_declared_types_are_free(place: Place) -> None:
    columns = {"age": {"kind": "integer"}, "lone": {"kind": "integer"}, "born": {"format": "%d.%m.%Y"}}
    release = place.learn(columns=columns)
    assert place.mechanisms(release) == ["row count", "profile"]
    assert [c.storage for c in release.schema] == ["int64", "date32[day]", "int64"]


def test_a_declared_plan_without_types_takes_declared_columns_and_refuses_others_before_reading(place: Place) -> None:
    columns = {"age": {"kind": "integer"}, "lone": {"kind": "integer"}, "born": {"format": "%d.%m.%Y"}}
    release = place.learn(columns=columns)
    entries = place.ledger.entries(release_id=release.id)
    events = [event for e in entries for event in e.events]
    tags = [e.mechanism for e in entries for _ in e.events]
    place.ledger.declare_plan(
        "people", name="weekly", events=events, mechanisms=tags, times=3, share=(6.0, 4e-6), why="test", who="t"
    )
    again = place.begin(columns=columns, plan="weekly")
    again.run(stages.Ingestion())
    again.run(stages.Profiling())
    assert place.mechanisms(again) == ["row count", "profile"]
    with pytest.raises(
        InvalidInput, match="leaves the types of 3 columns open, and the declared plan pays for those of 0"
    ):
        place.begin(plan="weekly").run(stages.Ingestion())
    assert place.last == "voided"


def test_a_report_of_no_real_rows_is_written_like_any_other_and_says_so_to_the_owner_alone(place, monkeypatch):
    """Noise may let an empty table through; whether its report fails would tell that it is empty, exactly and free."""
    place.rows.iloc[:0].to_parquet(place.folder / "nobody.parquet")
    counting(monkeypatch, 50)
    quick = {"max_epochs": 1, "hidden": 4}
    release = place.begin(
        source=str(place.folder / "nobody.parquet"), training=quick, validation={"holdout": str(place.csv)}
    )
    for stage in stages.of_release(release.settings):
        release.run(stage)
    evidence = quality_report.write(release, release.state, "run")
    page = release.state.files.report
    assert page.stat().st_mode & 0o777 == 0o600
    assert report.NO_ROWS in page.read_text()
    assert evidence.missing
    assert summary.quality(str(page), Console(force_terminal=True))[0].startswith(f"quality: {report.NO_ROWS}")


def of_related_tables(folder: Path, sexes: list[str], guaranteed: bool = True) -> Any:
    """Return as much of a release of related tables as its report asks for."""
    rows = folder / "patients.parquet"
    pd.DataFrame({"sex": pd.Series(sexes, dtype="string")}).to_parquet(rows)
    found, store = RelatedRows(rows, TableSchema(()), 0), Store(folder / "store")
    return SimpleNamespace(
        settings=SimpleNamespace(name="clinic", retention_days=None),
        record=SimpleNamespace(account="patients", code_version="1", ended_at=None),
        lineage=SimpleNamespace(epsilon=1.0, delta=1e-5),
        relations=Relations([Related("patients", key="id"), Related("visits", None, "patients", "id")]),
        state=SimpleNamespace(rows={"patients": found, "visits": found}),
        store=store,
        restricted=store.restricted("clinic", "r1"),
        protection=SimpleNamespace(guaranteed=guaranteed),
    )


def test_a_report_of_related_tables_of_nobody_says_so_and_does_not_fail(tmp_path):
    page = related_quality_report.write(of_related_tables(tmp_path, []), "run")
    assert report.NO_ROWS in page.read_text()
    assert summary.quality(str(page), Console(force_terminal=True))[0].startswith(f"quality: {report.NO_ROWS}")


def test_a_report_of_related_tables_that_fails_tells_their_owner_alone(tmp_path, monkeypatch, capfd):
    def broken(release):
        raise ValueError("CANARY")

    monkeypatch.setattr(related_quality_report, "_measured", broken)
    release = of_related_tables(tmp_path, ["f", "m"])
    page = related_quality_report.write(release, "run")
    assert quality_report.FAILED in unescape(page.read_text())
    assert summary.quality(str(page), Console(force_terminal=True))[0].startswith(f"quality: {quality_report.FAILED}")
    details = release.restricted / quality_report.FAILURE
    assert "ValueError: CANARY" in details.read_text()
    assert {p.stat().st_mode & 0o777 for p in (page, page.with_suffix(".headline"), details)} == {0o600}
    assert "CANARY" not in page.read_text() + "".join(capfd.readouterr())

"""Two spellings of one place are one place; two places stay two."""

import os
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.tabular.sources.place import same_place
from dp_synth_pipeline.targets import sink


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "data").mkdir()
    for name in ("people.csv", "data/a.parquet", "data/b.parquet", "w.duckdb"):
        (tmp_path / name).write_text("x")
    os.symlink(tmp_path / "people.csv", tmp_path / "link.csv")
    os.link(tmp_path / "people.csv", tmp_path / "hard.csv")
    os.symlink(tmp_path / "data", tmp_path / "also")
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PGHOST", "PGPORT", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("people.csv", "./people.csv"),
        ("people.csv", "{here}/people.csv"),
        ("people.csv", "data/../people.csv"),
        ("people.csv", "~/people.csv"),
        ("people.csv", "file://people.csv"),
        ("people.csv", "link.csv"),
        ("people.csv", "hard.csv"),
        ("data", "data/a.parquet"),
        ("data", "data/new.parquet"),
        ("data/a.parquet", "also/a.parquet"),
        ("data/new.parquet", "also/new.parquet"),
        ("data/*.parquet", "./data/new.parquet"),
        ("data/*.parquet", "also/b.parquet"),
        ("**/*.parquet", "data/deep/new.parquet"),
        ("duckdb:///w.duckdb?table=visits", "duckdb:///{here}/w.duckdb?table=main.Visits"),
        ("duckdb:///w.duckdb?table=visits", "duckdb:///./w.duckdb?table=w.main.visits"),
        ("duckdb:///w.duckdb?table=visits", "w.duckdb"),
        ("delta://table", "delta://{here}/table/"),
        ("table", "delta://./table"),
        ("delta://table", "table/part-0.parquet"),
        ("postgresql://ann:x@localhost/db?table=t", "postgres://bob@127.0.0.1:5432/db?table=public.t&sslmode=require"),
        ("postgresql:///db?table=t", "postgresql://[::1]/db?table=t"),
        ("postgresql:///db?table=t&host=/run/postgresql", "postgresql://localhost/db?table=t"),
        ("postgresql://DB.example/db?table=t", "postgresql://db.example:5432/db?table=t"),
        ("snowflake://a@acme/DB/S?table=T&warehouse=w", "snowflake://b@ACME.snowflakecomputing.com/db/s?table=t"),
        ("bigquery://p/d?table=t", "bigquery://p/d?table=t&location=EU"),
    ],
)
def test_spellings_of_one_place_are_known_in_both_directions(here: Path, one: str, other: str) -> None:
    one, other = one.format(here=here), other.format(here=here)
    assert same_place(one, other)
    assert same_place(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("people.csv", "people2.csv"),
        ("data", "synthetic/a.parquet"),
        ("data/*.parquet", "data/synthetic/new.parquet"),
        ("duckdb:///w.duckdb?table=visits", "duckdb:///w.duckdb?table=synthetic.visits"),
        ("duckdb:///w.duckdb?table=visits", "duckdb:///v.duckdb?table=visits"),
        ("delta://table", "delta://other"),
        ("postgresql://localhost/db?table=t", "postgresql://localhost/db?table=synthetic.t"),
        ("postgresql://localhost/db?table=t", "postgresql://localhost:5433/db?table=t"),
        ("postgresql://localhost/db?table=t", "postgresql://localhost/db?table=T"),  # names there are quoted
        ("postgresql://localhost/db?table=t", "postgresql://far.example/db?table=t"),
        ("snowflake://a@acme/DB/S?table=T", "snowflake://a@acme/DB/OTHER?table=T"),
        ("bigquery://p/d?table=t", "snowflake://p/d/d?table=t"),
        ("demo://rand_hie", "demo://rand_hie"),
    ],
)
def test_two_places_are_two(here: Path, one: str, other: str) -> None:
    assert not same_place(one, other)
    assert not same_place(other, one)


@pytest.mark.parametrize("target", ["./people.csv", "{here}/people.csv", "link.csv", "hard.csv", "~/people.csv"])
def test_settings_refuse_a_target_that_is_the_source_however_it_is_spelled(here: Path, target: str) -> None:
    with pytest.raises(ValueError, match="target: it is the source itself"):
        TableSettings(table="t", source="people.csv", account="a", epsilon=1, target=target.format(here=here))


def test_settings_refuse_a_target_that_is_the_holdout_or_the_public_table(here: Path) -> None:
    asked = {"table": "t", "source": "people.csv", "account": "a", "epsilon": 1, "target": "./data/a.parquet"}
    with pytest.raises(ValueError, match="target: it is the holdout itself"):
        TableSettings(**asked, validation={"holdout": "data/a.parquet"})
    with pytest.raises(ValueError, match="target: it is the public table itself"):
        TableSettings(**asked, training={"start": "public", "public": "data/a.parquet"})


def test_a_link_laid_after_the_settings_were_read_is_seen_before_publishing(here: Path) -> None:
    settings = TableSettings(table="t", source="people.csv", account="a", epsilon=1, target="new.csv")
    sink.check_spared("new.csv", settings.read)
    os.link(here / "people.csv", here / "new.csv")
    with pytest.raises(InvalidInput, match="it is the source itself"):
        sink.check_spared("new.csv", settings.read)

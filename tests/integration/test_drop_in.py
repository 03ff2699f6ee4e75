"""A synthetic CSV stands in for its source: the same header, dates and datetimes as the source writes them."""

import re

import pyarrow.parquet as pq

from tests.integration.conftest import failure, people, steps


def written(bench, seen: str, born: str) -> str:
    """Write the source as a CSV with formats of its own."""
    frame = people(400).drop(columns="person")
    frame["born"] = (frame["seen"].dt.normalize()).dt.strftime(born)
    frame["seen"] = frame["seen"].dt.strftime(seen)
    path = bench.folder / "people.csv"
    frame.to_csv(path, index=False)
    return str(path)


def cells(path, column: str) -> set[str]:
    header, *lines = path.read_text().splitlines()
    return {line.split(",")[header.split(",").index(column)] for line in lines}


def test_a_refresh_writes_a_csv_as_its_source_was_when_its_profile_was_measured_and_reads_one_written_anew(bench):
    out = bench.folder / "out.csv"
    source = written(bench, "%Y-%m-%dT%H:%M:%SZ", "%m/%d/%Y")
    facts = {"source": source, "columns": {}, "target": str(out), "training": {"method": "marginals"}}
    first = bench.refresh(**facts)
    assert first.success, failure(first)
    header = (bench.folder / "people.csv").read_text().splitlines()[0]
    assert out.read_text().splitlines()[0] == header
    assert all(re.fullmatch(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ", c) for c in cells(out, "seen"))
    assert all(re.fullmatch(r"[01]\d/[0-3]\d/2\d{3}", c) for c in cells(out, "born"))

    written(bench, "%Y-%m-%d %H:%M:%S+00", "%d.%m.%Y")
    again = bench.refresh(**facts)
    assert "published" in steps(again, "STEP_SUCCESS"), failure(again)
    assert all(re.fullmatch(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ", c) for c in cells(out, "seen")), "formats stay"
    assert all(re.fullmatch(r"[01]\d/[0-3]\d/2\d{3}", c) for c in cells(out, "born")), "as the profile does"
    latest = bench.ledger.releases("people")[-1].id
    assert [e.mechanism for e in bench.ledger.entries(release_id=latest)] == ["marginals"]
    held = pq.read_table(bench.store / "restricted" / "people" / latest / "typed.parquet", columns=["seen", "born"])
    assert [c.null_count for c in held.columns] == [0, 0], "what is written anew is read all the same"

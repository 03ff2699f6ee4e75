"""Real and synthetic related tables come in one form, whole persons at a time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dp_synth_pipeline.validation import related_frames
from tests.integration.clinic import clinic
from tests.unit.validation.databases import Frames, as_real, as_synthetic


def rows_of(frames: Frames, name: str) -> list[tuple]:
    """Return each row with those that it hangs on, in no order of the tables."""
    found = frames[name]
    above = found.parent
    rows = found.rows.astype(object).to_numpy().tolist()
    if above is None:
        return [tuple(map(str, row)) for row in rows]
    parents = rows_of(frames, "patients" if name == "visits" else "visits")
    return [(*parents[int(p)], *map(str, row)) for p, row in zip(above, rows, strict=True)]


def test_the_real_and_the_synthetic_reader_see_the_same_in_the_same_tables(tmp_path) -> None:
    tables = clinic(60)
    real, synthetic = as_real(tables, tmp_path / "real"), as_synthetic(tables, tmp_path / "drawn")
    for name in tables:
        assert sorted(rows_of(real, name)) == sorted(rows_of(synthetic, name))
        assert len(real[name].rows) == len(tables[name])
    persons = real["patients"].rows["born"].astype(str).to_numpy()
    visits = real["visits"]
    assert visits.parent is not None
    assert (persons[visits.person] == persons[visits.parent]).all()
    drugs = real["drugs"]
    assert drugs.parent is not None
    assert (visits.person[drugs.parent] == drugs.person).all()


def test_columns_that_hang_on_the_order_or_on_another_one_are_seen_as_they_are(tmp_path) -> None:
    tables = clinic(60)
    days = pd.to_datetime(tables["visits"]["visited"])
    tables["visits"]["left"] = (days + pd.to_timedelta(np.arange(len(days)) % 9, unit="D")).dt.date
    tables["visits"]["billed"] = tables["visits"]["left"]
    hang = {"left": {"after": "visited"}, "billed": {"same_as": "left"}}
    real, synthetic = as_real(tables, tmp_path / "real", hang), as_synthetic(tables, tmp_path / "drawn")
    assert sorted(rows_of(real, "visits")) == sorted(rows_of(synthetic, "visits"))


def test_static_columns_are_read_from_the_rows_that_carry_them(tmp_path) -> None:
    tables = clinic(60)
    real = as_real(tables, tmp_path / "real", static=("ward",))
    assert sorted(rows_of(real, "visits")) == sorted(rows_of(as_synthetic(tables, tmp_path / "drawn"), "visits"))


def test_rows_of_one_parent_are_together_and_in_their_order(tmp_path) -> None:
    for frames in (as_real(clinic(60), tmp_path / "real"), as_synthetic(clinic(60), tmp_path / "drawn")):
        visits = frames["visits"]
        after, before = visits.steps
        times = pd.to_datetime(visits.rows["visited"])
        assert (np.diff(visits.parent) >= 0).all()
        assert (times.iloc[after].to_numpy() >= times.iloc[before].to_numpy()).all()
        assert len(after) == len(visits.rows) - len(np.unique(visits.parent))


def test_a_synthetic_row_without_a_parent_is_left_out_with_what_hangs_on_it(tmp_path) -> None:
    tables = clinic(60)
    lost = tables["patients"]["patient_id"].iloc[0]
    tables["patients"] = tables["patients"].iloc[1:]
    found = as_synthetic(tables, tmp_path)
    gone = tables["visits"]["patient_id"] == lost
    assert gone.any()
    assert len(found["visits"].rows) == (~gone).sum()
    kept = tables["drugs"]["visit_id"].isin(tables["visits"]["visit_id"][~gone])
    assert len(found["drugs"].rows) == kept.sum()


def test_of_large_tables_some_persons_are_read_with_all_that_is_theirs(tmp_path, monkeypatch) -> None:
    tables = clinic(200)
    monkeypatch.setattr(related_frames, "BATCH", 37)  # rows come in several pieces
    whole = as_synthetic(tables, tmp_path / "whole")
    monkeypatch.setattr(related_frames, "LARGEST", len(tables["visits"]) // 4)
    part = as_synthetic(tables, tmp_path / "part")
    assert len(part["patients"].rows) < 60
    assert set(rows_of(part, "drugs")) < set(rows_of(whole, "drugs"))
    born = whole["patients"].rows["born"].astype(str)
    counts = born.iloc[whole["visits"].person].value_counts()
    own = part["patients"].rows["born"].astype(str)
    found = own.iloc[part["visits"].person].value_counts()
    assert found.eq(counts.reindex(found.index)).all()

"""A text column through a whole release: charged as one mechanism more, written upon its row, refused where it cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.language import note_network
from dp_synth_pipeline.reporting.card import to_json
from dp_synth_pipeline.reporting.card_verification import verify
from dp_synth_pipeline.synthesis.mechanisms.texts import Texts
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.texts import tokens
from tests.integration.clinic import clinic
from tests.light import light  # noqa: F401

TEXT = {"note": {"kind": "text", "max_length": 30}}
NOTES = {"ward": "patient slept well in the ward", "home": "went home with a new plan"}


def visits(rows: int = 2_000) -> pd.DataFrame:
    place = np.where(np.arange(rows) % 3 == 0, "home", "ward")
    note = pd.Series([NOTES[p] for p in place]).mask(np.arange(rows) % 5 == 0)
    return pd.DataFrame({"place": place, "age": 20 + np.arange(rows) % 50, "note": note})


@pytest.fixture
def ledger(tmp_path):
    book = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    book.open_account("clinic", epsilon=18, delta=1e-5)
    return book


def asked(ledger, tmp_path, **changes):
    quick = {"training": {"method": "marginals"}, "show": False, "columns": TEXT, "store": Store(tmp_path / "store")}
    return dps.Synthesizer("clinic", 6.0, ledger, **{**quick, **changes})


def test_texts_are_charged_with_their_release_and_follow_their_row(ledger, tmp_path):
    model = asked(ledger, tmp_path).fit(visits())
    (release,) = ledger.releases("clinic")
    assert {e.mechanism for e in ledger.entries(release_id=release.id)} == {"row count", "profile", "text", "marginals"}
    assert model.epsilon <= 6
    assert all(finding.holds for finding in verify(to_json(model.card()), ledger))
    path = model.save(tmp_path / "visits.dps")
    rows = dps.load(path).sample(400, seed=3)
    pd.testing.assert_frame_equal(rows, dps.load(path).sample(400, seed=3))
    assert 0.1 < rows["note"].isna().mean() < 0.3
    texts = rows.dropna()
    assert texts["note"].str.len().max() <= 30
    home = texts["note"].str.contains("home")
    assert home[texts["place"] == "home"].mean() > max(0.15, 1.5 * home[texts["place"] == "ward"].mean())
    some = model.sample(50, where={"place": "home"})
    assert set(some["place"]) == {"home"}
    with pytest.raises(InvalidInput, match="is text"):
        model.sample(5, where="note = 'x'")
    filled = model.complete(visits(6).assign(note=None))
    assert filled["note"].notna().all()
    assert not filled["note"].str.isspace().any()
    assert not [f for f in (tmp_path / "store" / "restricted").rglob("*") if f.is_file()]


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": {"where": "note IS NOT NULL"}},
        {"generation": {"share": {"note": {"x": 0.5}}}},
        {"validation": {"rules": ["note -> place"]}},
        {"validation": {"predict": "note"}},
    ],
)
def test_what_a_text_cannot_be_is_refused_before_a_row_is_read(ledger, tmp_path, changes):
    with pytest.raises(InvalidInput, match="note"):
        asked(ledger, tmp_path, **changes).fit(visits(20))
    assert not ledger.entries("clinic")


SAID = {"north": "walks alone again", "south": "cannot walk alone yet", "west": "was sent home"}


def noted_clinic(patients: int = 1_500) -> dict[str, pd.DataFrame]:
    """Return patients with a plate each, and visits of which most have a note that follows from the patient's ward."""
    tables = clinic(patients)
    plates = [f"{'ABCD'[i % 4]}{'XY'[i % 2]}-{i % 977:03d}" for i in range(patients)]
    visits = tables["visits"]
    note = visits["ward"].map(SAID).mask(visits.index % 5 == 0)
    return {"patients": tables["patients"].assign(plate=plates), "visits": visits.assign(note=note)}


def of_clinic(**of_note):
    note = {"kind": "text", "max_length": 30, **of_note}
    return {
        "patients": {"key": "patient_id", "columns": {"plate": {"kind": "text", "max_length": 8}}},
        "visits": {
            "key": "visit_id",
            "parent": {"patient_id": "patients"},
            "order": "visited",
            "max_rows": 6,
            "columns": {"note": note, "ward": {"static": True}, "score": {"static": False}},
        },
    }


def test_texts_of_related_tables_follow_their_rows_and_those_above_them(ledger, tmp_path, monkeypatch):
    read, writer = [], Texts._writer
    monkeypatch.setattr(
        Texts, "_writer", lambda self, column, rows, *how: read.append(rows) or writer(self, column, rows, *how)
    )
    ledger.open_account("people", epsilon=18, delta=1e-5, unit="patient_id")
    fitter = dps.Synthesizer(
        "people", 12.0, ledger, table="clinic", training={"max_epochs": 2}, show=False, store=Store(tmp_path / "store")
    )
    real = noted_clinic()
    model = fitter.fit(real, relations=of_clinic())
    assert [len(rows.codes) for rows in read] == [1_500, real["visits"]["patient_id"].nunique()], (
        "one row of each person"
    )
    assert [rows.cells.num_rows for rows in read] == [len(rows.codes) for rows in read]
    charged = [e.mechanism for e in ledger.entries("people")]
    assert [m for m in charged if m.startswith("text")] == ["text of patients", "text of visits"]
    assert model.epsilon <= 12
    tables = model.sample(500, seed=3)
    visits = tables["visits"]
    pd.testing.assert_frame_equal(visits, model.sample(500, seed=3)["visits"])
    assert tables["patients"]["plate"].str.fullmatch("[ABCD][XY]-[0-9]{3}").mean() > 0.8
    assert 0.1 < visits["note"].isna().mean() < 0.35
    said = visits.dropna(subset=["note"])
    assert said["note"].str.len().max() <= 30
    assert not said["note"].str.isspace().any()
    home = said["note"].str.contains("home")
    by_ward = home.groupby(said["ward"]).mean()
    assert by_ward["west"] > 3 * by_ward[["north", "south"]].max(), "the ward is a column of the patient's row"
    path = model.save(tmp_path / "clinic.dps")
    assert dps.load(path).sample(20, where="visits.ward = 'west'")["visits"]["note"].notna().any()
    with pytest.raises(InvalidInput, match="'plate' is text"):
        model.sample(5, where="plate = 'AX-001'")


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"model": "nowhere.gguf"}, "nowhere.gguf"),
        (
            {"model": "said.gguf", "prompt": "of the {warf}"},
            "no column that is learned beside it.*sex.*Did you mean ward",
        ),
    ],
)
def test_a_language_model_that_cannot_write_for_related_tables_is_refused_before_anything_is_read(
    ledger, tmp_path, monkeypatch, facts, what
):
    monkeypatch.setattr(note_network, "check_installed", lambda: None)
    monkeypatch.chdir(tmp_path)
    Path("said.gguf").write_bytes(b"a model")
    ledger.open_account("people", epsilon=9, delta=1e-5, unit="patient_id")
    fitter = dps.Synthesizer("people", 6.0, ledger, table="clinic", show=False, store=Store(tmp_path / "store"))
    with pytest.raises(InvalidInput, match=what):
        fitter.fit(noted_clinic(20), relations=of_clinic(**facts))
    assert [r.state for r in ledger.releases()] == ["voided"]
    assert ledger.entries("people") == []


def test_a_text_that_looks_like_an_identifier_is_found_by_its_check():
    import pyarrow as pa

    from dp_synth_pipeline.tabular.schema import build
    from dp_synth_pipeline.validation import texts

    check = texts.check_for(build({"note": pa.string(), "n": pa.int64()}, TEXT)["note"], "note__domain")
    good, bad = pa.table({"note": ["slept well", None]}), pa.table({"note": ["call +49 30 1234567", "x" * 31]})
    assert texts.evaluate(check, good)[0]
    assert texts.evaluate(check, bad) == (False, {"rows": 2, "too_long": 1, "identifying": 1})
    assert tokens.identifies("mail ann@example.org now")

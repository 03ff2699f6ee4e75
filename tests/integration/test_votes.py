"""A text column for which a public model is only asked, through a whole release: texts vote, and votes alone are charged.

What asks the model is replaced here by one that says sentences of its own; `test_notes` has a real one asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError, UnexpectedFailure
from dp_synth_pipeline.model.language import asked as asking
from dp_synth_pipeline.model.language import note_network
from dp_synth_pipeline.model.language.public_model import PublicModel
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, REPLACE_ONE
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.reporting.card import to_json
from dp_synth_pipeline.reporting.card_verification import verify
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.texts import evolution, survivors, tokens
from dp_synth_pipeline.texts.plan import ROUNDS
from tests.integration.clinic import WARDS, clinic
from tests.integration.test_texts import visits
from tests.light import light  # noqa: F401

PROMPT = "Write a note about a patient of the {place}."
SAID = ("slept well in the ward", "went home with a plan", "call ann@example.org", "a new rash", "walked a little")


class Sayings:
    """Says one of a few sentences, or goes on with one, and remembers what it was asked."""

    asked: ClassVar[list[str]] = []

    def __init__(self, public: PublicModel, most: int, instructions: Sequence[str]) -> None:
        assert public.files

    def write(self, instructions: Sequence[str], beginnings: Sequence[str], rng: np.random.Generator) -> list[str]:
        self.asked.extend(instructions)
        return [f"{b} {rng.choice(SAID)}" for b in beginnings]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's file, of which nothing but its hash matters."""
    monkeypatch.setattr(note_network, "check_installed", lambda: None)
    monkeypatch.setattr(asking, "Asked", Sayings)
    monkeypatch.setattr(Sayings, "asked", [])
    (tmp_path / "said.gguf").write_bytes(b"a model")
    return tmp_path / "said.gguf"


@pytest.fixture
def ledger(tmp_path: Path) -> dps.Ledger:
    book = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    book.open_account("clinic", epsilon=18, delta=1e-5)
    return book


def fit(
    ledger: dps.Ledger,
    path: Path,
    rows: pd.DataFrame,
    facts: dict | None = None,
    account="clinic",
    resume=None,
    **changes,
):
    columns = {"note": {"kind": "text", "max_length": 30, "model": str(path), "prompt": PROMPT, **(facts or {})}}
    store = Store(path.parent / "store")
    quick = {"training": {"method": "marginals"}, "show": False, "columns": columns, "store": store}
    return dps.Synthesizer(account, 6.0, ledger, **{**quick, **changes}).fit(rows, resume=resume)


def test_votes_are_charged_with_their_release_and_rows_get_what_survived(ledger, path):
    fitted = fit(ledger, path, visits())
    (release,) = ledger.releases("clinic")
    entries = {e.mechanism: e for e in ledger.entries(release_id=release.id)}
    assert set(entries) == {"row count", "profile", "votes", "marginals"}
    (event,) = entries["votes"].events
    assert isinstance(event, Gaussian)
    assert event.count == ROUNDS
    assert fitted.epsilon <= 6
    card = to_json(fitted.card())
    assert all(finding.holds for finding in verify(card, ledger))
    assert PublicModel.at(str(path)).sha256() in card
    assert "chosen by the votes of real ones" in card
    assert "outside of any guarantee" in card
    assert set(Sayings.asked) == {
        "Write a note about a patient of the home.",
        "Write a note about a patient of the ward.",
    }
    saved, _ = fitted.save(path.parent / "visits.dps"), path.unlink()  # whoever draws needs no model
    rows = dps.load(saved).sample(400, seed=3)
    pd.testing.assert_frame_equal(rows, dps.load(saved).sample(400, seed=3))
    texts = rows.dropna()
    assert texts["note"].str.len().max() <= 30
    assert not texts["note"].map(tokens.identifies).any()
    assert set(fitted.sample(20, where={"place": "home"})["place"]) == {"home"}


def test_texts_go_with_the_column_that_the_prompt_names(ledger, path):
    """Some 400 texts of the one place and 1,200 of the other vote, against a deviation of some three votes."""
    rows = fit(ledger, path, visits()).sample(2_000).dropna()
    home = rows["note"].str.contains("home")
    assert home[rows["place"] == "home"].mean() > 0.5 > home[rows["place"] == "ward"].mean()


def test_texts_of_a_visit_go_with_what_its_patient_carries(ledger, path):
    """Each patient is seen on one ward, which is static, so that patients carry it; one visit of each votes."""
    ledger.open_account("patients", epsilon=9, delta=1e-5, unit="patient_id")
    tables = {name: rows for name, rows in clinic(1_200).items() if name != "drugs"}
    tables["visits"]["note"] = np.where(tables["visits"]["ward"] == "west", SAID[1], SAID[0])
    note = {"kind": "text", "max_length": 30, "model": str(path), "prompt": "Write a note of the {ward}."}
    visits_of = {"key": "visit_id", "parent": {"patient_id": "patients"}, "order": "visited", "max_rows": 6}
    columns = {"ward": {"static": True}, "note": note}
    relations = {"patients": {"key": "patient_id"}, "visits": {**visits_of, "columns": columns}}
    training, store = {"max_epochs": 2, "hidden": 8}, Store(path.parent / "store")
    asked = dps.Synthesizer("patients", 6.0, ledger, table="clinic", training=training, show=False, store=store)
    fitted = asked.fit(tables, relations=relations)
    (release,) = ledger.releases("patients")
    (votes,) = [e for e in ledger.entries(release_id=release.id) if e.mechanism == "votes of visits"]
    assert [(type(event), event.count) for event in votes.events] == [(Gaussian, ROUNDS)]
    assert {f"Write a note of the {ward}." for ward in WARDS} <= set(Sayings.asked)
    card = to_json(fitted.card())
    assert all(finding.holds for finding in verify(card, ledger))
    assert PublicModel.at(str(path)).sha256() in card
    drawn = fitted.sample(600)["visits"].dropna()
    home, west = drawn["note"].str.contains("home"), drawn["ward"] == "west"
    assert west.sum() > 50
    assert home[west].mean() > 0.5 > home[~west].mean()


def test_what_is_released_of_texts_is_what_the_model_said_and_never_what_somebody_wrote(ledger, path):
    rows = visits(300)
    rows.loc[7, "note"] = "quetzal under the plinth"
    fit(ledger, path, rows)
    (file,) = [f for f in (path.parent / "store").rglob(survivors.FILE) if "restricted" not in f.parts]
    words = {word for text in json.loads(file.read_text())["texts"] for word in text.split()}
    parts = {said[:n] for said in SAID for n in range(len(said) + 1)}
    assert all(any(word in part for part in parts) for word in words)
    kept = [f for f in (path.parent / "store").rglob("*") if f.is_file()]
    assert not [f for f in kept if b"quetzal" in f.read_bytes()]
    assert not [f for f in kept if "restricted" in f.parts]


def test_without_a_column_in_the_prompt_all_texts_vote_together(ledger, path):
    fitted = fit(ledger, path, visits(200), {"prompt": "Write a note."})
    assert set(Sayings.asked) == {"Write a note."}
    assert fitted.sample(20)["note"].notna().any()


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"prompt": "of the {plase}"}, "Did you mean place"),
        ({"prompt": "{place} and {age}"}, "keep one"),
        ({"prompt": "{note}"}, "no column that is learned"),
        ({"prompt": " "}, "expected up to 500 characters"),
        ({"prompt": 3}, "expected up to 500 characters"),
        ({"model": None}, "none is named"),
        ({"kind": "category", "max_length": None, "model": None}, "kind category has none"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_a_row_is_read(ledger, path, facts, what):
    with pytest.raises(InvalidInput, match=what):
        fit(ledger, path, visits(20), facts)
    assert not ledger.entries("clinic")


def test_votes_that_break_off_were_charged_before_a_text_was_read_and_stay_charged(ledger, path, monkeypatch):
    def read(*_) -> None:
        (entry,) = [e for e in ledger.entries("clinic") if e.mechanism == "votes"]
        assert entry.state == "started"
        raise RuntimeError("a text of somebody")

    monkeypatch.setattr(evolution, "nearest", read)
    with pytest.raises(UnexpectedFailure, match="withheld"):
        fit(ledger, path, visits(60))
    (release,) = ledger.releases("clinic")
    with pytest.raises(ReleaseStateError, match="two looks"):
        fit(ledger, path, visits(60), resume=release.id)


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_persons_of_several_texts_fit_into_their_account_under_either_relation(ledger, path, relation):
    rows = visits(400).assign(person=np.arange(400) // 4)
    ledger.open_account("persons", epsilon=18, delta=1e-5, unit="person", max_rows=4, relation=relation)
    fitted = fit(ledger, path, rows, account="persons", unit={"column": "person", "max_rows": 4})
    assert fitted.epsilon <= 6
    assert "votes" in {e.mechanism for e in ledger.entries("persons")}


def test_a_column_of_counted_texts_beside_it_is_charged_by_itself(ledger, path):
    rows = visits(400).assign(plate=[f"AB-{i % 100:02d}" for i in range(400)])
    note = {"kind": "text", "max_length": 30, "model": str(path), "prompt": PROMPT}
    columns = {"note": note, "plate": {"kind": "text", "max_length": 9}}
    drawn = fit(ledger, path, rows, columns=columns).sample(50)
    assert {"text", "votes"} < {e.mechanism for e in ledger.entries("clinic")}
    assert drawn["plate"].notna().all()
    assert drawn["note"].dropna().str.len().max() <= 30

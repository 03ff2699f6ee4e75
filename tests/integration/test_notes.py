"""A text column that a language model writes, through a whole release: charged as one training more, and checked by hash."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import dp_synth_pipeline as dps
from benchmarks import pipeline
from dp_synth_pipeline.errors import AuditFailed, InvalidInput, UnexpectedFailure
from dp_synth_pipeline.ledger import Entry
from dp_synth_pipeline.model.dpsgd import descent
from dp_synth_pipeline.model.language.asked import Asked
from dp_synth_pipeline.model.language.note_model import NoteModel
from dp_synth_pipeline.model.language.note_network import NoteNetwork
from dp_synth_pipeline.model.language.public_model import PublicModel
from dp_synth_pipeline.privacy.audit import Audit, Finding
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from dp_synth_pipeline.reporting.card import to_json
from dp_synth_pipeline.reporting.card_verification import verify
from dp_synth_pipeline.synthesis.note_writer import NoteWriter, WordLeanings
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.texts import measuring
from tests.integration.clinic import clinic
from tests.integration.test_texts import visits
from tests.light import light  # noqa: F401

transformers = pytest.importorskip("transformers", reason="needs the extra `text`")
pytest.importorskip("peft", reason="needs the extra `text`")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of bytes that was taught nothing, as its user would bring one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate([*letters, "<end>"])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("model")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(
        vocab_size=len(letters) + 1, num_key_value_heads=2, eos_token_id=len(letters), bos_token_id=None, **sizes
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def ledger(tmp_path: Path) -> dps.Ledger:
    book = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    book.open_account("clinic", epsilon=18, delta=1e-5)
    return book


NOTE = {"kind": "text", "max_length": 30}


def asked(ledger: dps.Ledger, tmp_path: Path, model: Path | str, **changes):
    columns = {"note": {**NOTE, "model": str(model)}}
    quick = {"training": {"method": "marginals"}, "show": False, "columns": columns, "store": Store(tmp_path / "store")}
    return dps.Synthesizer("clinic", 6.0, ledger, **{**quick, **changes})


@pytest.mark.slow
def test_notes_are_charged_with_their_release_and_written_by_the_model_that_the_card_names(ledger, tmp_path, model):
    fitted = asked(ledger, tmp_path, model).fit(visits(400))
    (release,) = ledger.releases("clinic")
    entries = {e.mechanism: e for e in ledger.entries(release_id=release.id)}
    assert set(entries) == {"row count", "profile", "words of notes", "notes", "marginals"}
    (event,) = entries["notes"].events
    assert isinstance(event, SubsampledGaussian)
    assert entries["notes"].steps_started == event.steps
    assert fitted.epsilon <= 6
    card, sha256 = to_json(fitted.card()), PublicModel.at(str(model)).sha256()
    assert all(finding.holds for finding in verify(card, ledger))
    assert sha256 in card
    assert "outside of any guarantee" in card
    path = fitted.save(tmp_path / "visits.dps")
    rows = dps.load(path).sample(40, seed=3)
    pd.testing.assert_frame_equal(rows, dps.load(path).sample(40, seed=3))
    texts = rows["note"].dropna()
    assert len(texts)
    assert texts.str.len().max() <= 30
    assert texts.map(lambda t: t.isprintable()).all()
    assert set(fitted.sample(5, where={"place": "home"})["place"]) == {"home"}
    kept = [f for f in (tmp_path / "store").rglob("*") if f.is_file()]
    assert not [f for f in kept if "restricted" in f.parts or f.name == "model.safetensors"]
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "rope_theta": 2.0}))
    try:
        with pytest.raises(InvalidInput, match=f"expected SHA-256 {sha256}"):
            dps.load(path).sample(5)
    finally:
        (model / "config.json").write_text(json.dumps(config))


@pytest.mark.slow
def test_texts_lean_to_words_that_were_counted_and_are_raked_before_they_are_released(
    ledger, tmp_path, model, monkeypatch
):
    seen, honest, first = {}, measuring.measure_words, WordLeanings.of.__func__  # type: ignore[attr-defined]

    def measure_words(rows, read, plan, odometer):
        seen.update(rows=rows, read=read)
        return honest(rows, read, plan, odometer)

    def of(cls, counts, merged):
        seen["first"] = first(cls, counts, merged)
        return seen["first"]

    monkeypatch.setattr(measuring, "measure_words", measure_words)
    monkeypatch.setattr(WordLeanings, "of", classmethod(of))
    asked(ledger, tmp_path, model).fit(visits(200))
    assert np.bincount(seen["read"].reader).max() <= seen["rows"].most  # its norm bounds what one row adds to a score
    (path,) = (tmp_path / "store").rglob("notes.safetensors")
    released = NoteWriter.load(path).words
    assert released is not None
    np.testing.assert_array_equal(released.known, seen["first"].known)
    for raked, before in zip(released.leanings.weights, seen["first"].leanings.weights, strict=True):
        assert not np.array_equal(raked, before)


@pytest.mark.slow
def test_notes_of_a_visit_are_told_of_its_patient_and_charged_by_the_patient(ledger, tmp_path, model):
    """Of each patient one visit teaches the model, so that each counts as one, and none without a visit."""
    ledger.open_account("patients", epsilon=9, delta=1e-5, unit="patient_id")
    tables = {name: rows for name, rows in clinic(160).items() if name != "drugs"}
    tables["visits"]["note"] = "seen in the " + tables["visits"]["ward"]
    columns = {"note": {"kind": "text", "max_length": 20, "model": str(model)}, "ward": {"static": True}}
    parent = {"parent": {"patient_id": "patients"}, "order": "visited", "max_rows": 6}
    relations = {"patients": {"key": "patient_id"}, "visits": {"key": "visit_id", **parent, "columns": columns}}
    terms = {"training": {"max_epochs": 1, "hidden": 4}, "show": False, "store": Store(tmp_path / "store")}
    fitted = dps.Synthesizer("patients", 6.0, ledger, table="clinic", **terms).fit(tables, relations=relations)
    (release,) = ledger.releases("patients")
    entries = {e.mechanism: e for e in ledger.entries(release_id=release.id)}
    assert {"words of notes of visits", "notes of visits"} <= set(entries)
    (event,) = entries["notes of visits"].events
    assert isinstance(event, SubsampledGaussian)
    assert entries["notes of visits"].steps_started == event.steps
    assert fitted.epsilon <= 6
    (path,) = (tmp_path / "store").rglob("notes.safetensors")
    assert {"score", "sex", "visits.ward"} <= set(NoteWriter.load(path).prompts.names)
    card = to_json(fitted.card())
    assert all(finding.holds for finding in verify(card, ledger))
    assert PublicModel.at(str(model)).sha256() in card
    saved = fitted.save(tmp_path / "clinic.dps")
    drawn = dps.load(saved).sample(30, seed=3)
    pd.testing.assert_frame_equal(drawn["visits"], dps.load(saved).sample(30, seed=3)["visits"])
    texts = drawn["visits"]["note"].dropna()
    assert len(texts)
    assert texts.str.len().max() <= 20


@pytest.mark.slow
def test_rows_that_a_person_declared_public_are_counted_and_learnt_without_noise(tmp_path, model):
    visits(150).to_parquet(tmp_path / "visits.parquet")
    columns = {"note": {"kind": "text", "max_length": 30, "model": str(model)}}
    public = {"privacy": "none", "public": {"why": "a public table", "by": "Ana"}, "training": {"method": "marginals"}}
    settings = ReleaseSettings(source=str(tmp_path / "visits.parquet"), table="t", columns=columns, **public)
    pipeline.run(settings, tmp_path / "home", tmp_path / "rows.csv")
    texts = pd.read_csv(tmp_path / "rows.csv")["note"].dropna()
    assert len(texts)
    assert texts.str.len().max() <= 30


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"columns": {"note": {"kind": "text", "max_length": 9, "model": "nowhere"}}}, "expected a folder"),
        ({"columns": {c: {"kind": "text", "max_length": 9, "model": "m"} for c in ("note", "place")}}, "one column"),
        ({"columns": {"note": {"kind": "text", "max_length": 9, "model": 3}}}, "the path of a pretrained"),
        ({"columns": {"age": {"kind": "integer", "model": "m"}}}, "has none"),
    ],
)
def test_what_no_model_can_write_is_refused_before_a_row_is_read(ledger, tmp_path, model, changes, what):
    with pytest.raises(InvalidInput, match=what):
        asked(ledger, tmp_path, model, **changes).fit(visits(20))
    assert not ledger.entries("clinic")


def notes_of(ledger: dps.Ledger) -> list[Entry]:
    """Return the ledger's entries of trainings of notes, oldest first."""
    return [e for e in ledger.entries("clinic") if e.mechanism.split(",")[0] == "notes"]


def steps_of(entry: Entry) -> int:
    (event,) = entry.events
    assert isinstance(event, SubsampledGaussian)
    return event.steps


@pytest.mark.slow
def test_a_training_that_breaks_off_was_charged_before_a_text_was_read_and_is_gone_on_with_for_one_charge(
    ledger, tmp_path, model, monkeypatch
):
    read = NoteModel.encode

    def fails(self: NoteModel, prompts: list[str], texts: list[str | None]) -> None:
        (entry,) = notes_of(ledger)
        assert entry.state == "started"
        raise RuntimeError("a text of somebody")

    both = {"note": {**NOTE, "model": str(model)}, "remark": NOTE}
    rows = visits(60).assign(remark=lambda v: v["note"])
    monkeypatch.setattr(NoteModel, "encode", fails)
    with pytest.raises(UnexpectedFailure, match="withheld"):
        asked(ledger, tmp_path, model, columns=both).fit(rows)
    (planned,) = map(steps_of, notes_of(ledger))
    assert not list((tmp_path / "store").rglob("notes.safetensors"))
    (release,) = ledger.releases("clinic")
    monkeypatch.setattr(NoteModel, "encode", read)
    with monkeypatch.context() as other:
        other.setattr(PublicModel, "sha256", lambda self: "another one")
        with pytest.raises(InvalidInput, match="not those that this generator"):
            asked(ledger, tmp_path, model, columns=both).fit(rows, resume=release.id)
    fitted = asked(ledger, tmp_path, model, columns=both).fit(rows, resume=release.id)
    assert set(fitted.sample(5)) >= {"note", "remark"}
    assert [e.mechanism for e in notes_of(ledger)] == ["notes", "notes, resumed at 0"]
    assert sum(e.steps_paid for e in notes_of(ledger)) == planned, "no step was started before"
    counted = [e.mechanism for e in ledger.entries("clinic")]
    assert (counted.count("words of notes"), counted.count("text")) == (1, 1), "what was counted is not counted again"
    (release,) = ledger.releases("clinic")
    assert (release.state, release.final_epsilon <= 6.0) == ("settled", True)
    ledger.verify()


@pytest.mark.slow
def test_a_training_of_the_notes_of_related_tables_is_gone_on_with_as_well(ledger, tmp_path, model, monkeypatch):
    ledger.open_account("patients", epsilon=8, delta=1e-5, unit="patient_id")
    tables = {name: frame for name, frame in clinic(120).items() if name != "drugs"}
    tables["visits"]["note"] = "seen in the " + tables["visits"]["ward"]
    relations = {
        "patients": {"key": "patient_id"},
        "visits": {
            "key": "visit_id",
            "parent": {"patient_id": "patients"},
            "columns": {"note": {**NOTE, "model": str(model)}},
        },
    }
    quick = {"training": {"max_epochs": 1, "hidden": 8}, "show": False, "store": Store(tmp_path / "store")}
    learn = NoteModel.fit

    def fails(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(NoteModel, "fit", fails)
    with pytest.raises(UnexpectedFailure):
        dps.Synthesizer("patients", 6.0, ledger, **quick).fit(tables, relations=relations)
    (release,) = ledger.releases("patients")
    monkeypatch.setattr(NoteModel, "fit", learn)
    fitted = dps.Synthesizer("patients", 6.0, ledger, **quick).fit(tables, relations=relations, resume=release.id)
    assert "note" in fitted.sample(5)["visits"]
    names = [e.mechanism for e in ledger.entries("patients") if e.mechanism.startswith("notes")]
    assert names == ["notes of visits", "notes of visits, resumed at 0"]
    assert ledger.releases("patients")[0].final_epsilon <= 6.0
    ledger.verify()


@pytest.mark.slow
def test_a_training_of_notes_that_is_killed_goes_on_from_its_checkpoint_and_charges_each_step_that_started_once(
    ledger, tmp_path, model, monkeypatch
):
    step, begun = descent.Descent._step, []

    def dies(self: descent.Descent, number: int) -> None:
        if number == 5 and isinstance(self.network, NoteNetwork):  # of about twelve, by the noisy count of rows
            raise MemoryError
        return step(self, number)

    def goes_on(self: descent.Descent, number: int) -> None:
        if isinstance(self.network, NoteNetwork):
            begun.append(number)
        return step(self, number)

    monkeypatch.setattr(descent, "CHUNK", 2)
    with monkeypatch.context() as patched:
        patched.setattr(descent.Descent, "_step", dies)
        with pytest.raises(UnexpectedFailure, match="withheld"):
            asked(ledger, tmp_path, model).fit(visits(200))
    (release,) = ledger.releases("clinic")
    (planned,) = map(steps_of, notes_of(ledger))
    checkpoint = next((tmp_path / "store").rglob("notes_checkpoint/*"))
    kept = load_file(checkpoint)["weights"].clone()
    monkeypatch.setattr(descent.Descent, "_step", goes_on)
    loaded = []
    load = descent.checkpoint.load

    def seen(folder: Path, flat: Any, *rest: Any) -> Any:
        found = load(folder, flat, *rest)
        loaded.append(flat.vector.detach().clone())
        return found

    monkeypatch.setattr(descent.checkpoint, "load", seen)
    fitted = asked(ledger, tmp_path, model).fit(visits(200), resume=release.id)
    assert (fitted.sample(20)["note"].dropna().str.len() <= 30).all()
    assert torch.equal(loaded[0], kept)
    first, second = notes_of(ledger)
    assert (first.steps_started, second.mechanism) == (6, "notes, resumed at 6")
    assert begun == list(range(6, planned))
    assert ledger.releases("clinic")[0].final_epsilon <= 6.0
    assert 6 + steps_of(second) == planned
    ledger.verify()


def test_a_training_whose_audit_fails_releases_nothing(ledger, tmp_path, model, monkeypatch):
    finding = Finding("audit_noise", False, 1.0, 0.1, 0.0, 0.2, "There is less noise than was charged.")
    monkeypatch.setattr(NoteModel, "fit", lambda *_: SimpleNamespace(audit=Audit(1, (finding,))))
    with pytest.raises(AuditFailed):
        asked(ledger, tmp_path, model).fit(visits(60))
    (release,) = ledger.releases("clinic")
    assert not release.released
    assert not list((tmp_path / "store").rglob("notes.safetensors"))


def test_a_model_that_is_none_is_refused_before_its_training_is_charged(ledger, tmp_path, model):
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    (broken / "config.json").write_text("{}")
    with pytest.raises(InvalidInput, match="not read as a causal language model"):
        asked(ledger, tmp_path, broken).fit(visits(60))
    assert "notes" not in {e.mechanism for e in ledger.entries("clinic")}


@pytest.mark.slow
def test_a_model_that_is_only_asked_goes_on_with_what_begins_and_its_texts_are_checked(ledger, tmp_path, model):
    wanted = ["Write a note.", "Write a long note about a patient."]
    texts = Asked(PublicModel.at(str(model)), 30, wanted).write(
        wanted * 2, ["", "he slept", "he", ""], np.random.default_rng()
    )
    assert texts[1].startswith("he slept")
    assert len(texts) == 4
    columns = {
        "note": {"kind": "text", "max_length": 30, "model": str(model), "prompt": "Write a note of the {place}."}
    }
    rows = asked(ledger, tmp_path, model, columns=columns).fit(visits(120)).sample(40)["note"].dropna()
    assert len(rows)
    assert rows.map(lambda text: text.isprintable() and len(text) <= 30).all()

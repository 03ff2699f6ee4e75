"""Whether a card is true: an edited one, one of another ledger, and a ledger that was rolled back are each caught."""

import dataclasses
import json
import shutil
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dp_synth_pipeline import cli
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import DiscreteGaussian, SubsampledGaussian
from dp_synth_pipeline.reporting import card_verification, wording
from dp_synth_pipeline.reporting.card import CardFacts, ReleaseCard, from_json, to_json
from dp_synth_pipeline.reporting.card_pages import render_card
from dp_synth_pipeline.reporting.release_card import mechanisms_of, reused_of

pytestmark = pytest.mark.slow

EVENTS = {"profile": [DiscreteGaussian(60.0, 1, 12)], "training": [SubsampledGaussian(4.0, 0.01, 50)]}


def released(ledger, key="k", table="people", account="people"):
    """A settled release, as a pipeline leaves it."""
    held = {"table": table, "run_id": f"run-{key}", "code_version": "c0de"}
    release = ledger.reserve(account, key=key, epsilon=1.0, delta=1e-6, **held)
    for mechanism, events in EVENTS.items():
        ledger.start(release.id, mechanism, events)
    ledger.note_source(release.id, "digest")
    return ledger.settle(release.id)


def card_of(ledger, release, parquet):
    account, lineage = ledger.account("people"), ledger.lineage(release.id)
    facts = CardFacts(
        table=release.table, created="2026-11-21T00:00:00+00:00", rows=10, columns=2, epsilon=lineage.epsilon,
        delta=lineage.delta, added_epsilon=release.final_epsilon, added_delta=release.final_delta,
        trade_off=lineage.trade_off, reused=reused_of(lineage), account="people",
        account_epsilon=account.epsilon, account_delta=account.delta,
        account_spent_epsilon=1.0, release=release.id, run_id=release.run_id, code_version="c0de",
        ledger_head=ledger.head(),
        table_sha256=card_verification.sha256(parquet),
        checks=[{"name": "rows", "passed": False, "blocking": False, "description": "Rows."}],
        mechanisms=mechanisms_of(lineage.own),
    )  # fmt: skip
    return ReleaseCard(facts).sealed(ledger.seal)


@pytest.fixture
def kept(tmp_path):
    """A ledger, a released table, and its card."""
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("people", epsilon=5.0, delta=1e-5)
    table = tmp_path / "people.parquet"
    table.write_bytes(b"synthetic rows")
    release = released(ledger)
    text = to_json(card_of(ledger, release, table))
    (tmp_path / "release_card.json").write_text(text)
    return SimpleNamespace(ledger=ledger, table=table, text=text, folder=tmp_path, release=release)


def broken(found):
    return [f.what for f in found if not f.holds]


SEAL = "nothing on the card was changed: its seal is this ledger's"


def test_a_true_card_is_verified_with_its_file(kept):
    found = card_verification.verify(kept.text, kept.ledger, kept.table)
    assert broken(found) == []
    assert len(found) >= 15


def test_it_stays_true_when_others_are_released_and_the_limit_is_raised(kept):
    released(kept.ledger, "later", "others")
    kept.ledger.raise_account("people", epsilon=9.0, why="w", who="ana")
    assert broken(card_verification.verify(kept.text, kept.ledger)) == []


EDITS = {
    "epsilon": ("epsilon of the table", 0.1),
    "delta": ("delta of the table", 1e-9),
    "added_epsilon": ("epsilon of the release", 0.1),
    "added_delta": ("delta of the release", 1e-9),
    "trade_off": ("the trade-off", {"mu": 0.1}),
    "account": ("the account", "other"),
    "account_epsilon": ("the account's limit", 2.0),
    "unit": ("the privacy unit", "person"),
    "relation": ("the neighbouring relation", "replace-one"),
    "run_id": ("the run", "another"),
    "code_version": ("the code version", "another"),
    "ledger_head": ("the ledger still holds the head on the card", "0" * 64),
    "table": ("the table", "others"),
    "release": ("the ledger knows the release", "another"),
    "rows": (SEAL, 11),
    "description": (SEAL, "Safe for everything."),
    "table_sha256": ("the file is the published table", "0" * 64),
    "created": (SEAL, "2027"),
}


@pytest.mark.parametrize("field", EDITS)
def test_an_edited_fact_is_named(kept, field):
    what, value = EDITS[field]
    edited = json.dumps(json.loads(kept.text) | {field: value})
    found = broken(card_verification.verify(edited, kept.ledger, kept.table))
    assert what in found
    assert SEAL in found


@pytest.mark.parametrize("edit", ["noise", "entry", "dropped", "check", "meaning", "more"])
def test_an_edit_deeper_down_is_caught(kept, edit):
    told = json.loads(kept.text)
    if edit == "noise":
        told["mechanisms"][1]["event"]["noise_multiplier"] = 40.0
    elif edit == "entry":
        told["mechanisms"][0]["entry"] = "another"
    elif edit == "dropped":
        del told["mechanisms"][0]
    elif edit == "check":
        told["checks"][0]["passed"] = True
    elif edit == "meaning":
        told["derived"]["meaning"] = "Perfect protection."
    else:
        told["endorsed_by"] = "everybody"
    found = broken(card_verification.verify(json.dumps(told), kept.ledger))
    assert SEAL in found
    mechanisms = "every mechanism, with its parameters and entry"
    assert (mechanisms in found) == (edit in ("noise", "entry", "dropped"))


@pytest.fixture
def built(kept):
    """The card of a release that took the first one's profile and began at its weights, and stopped early."""
    first, held = (
        kept.ledger.entries(release_id=kept.release.id),
        {"table": "people", "run_id": "r", "code_version": "c0de"},
    )
    release = kept.ledger.reserve("people", key="next", epsilon=1.0, delta=1e-6, **held)
    entry = kept.ledger.start(release.id, "training", EVENTS["training"], upon=[e.id for e in first])
    kept.ledger.mark(entry.id, 20)
    kept.ledger.settle_at_mark(entry.id, why="a look at the loss", who="run r")
    kept.ledger.note_source(release.id, "digest")
    release = kept.ledger.settle(release.id)
    return card_of(kept.ledger, release, kept.table)


def test_a_card_promises_what_everything_that_its_table_shows_promises_together(kept, built):
    f = built.facts
    assert broken(card_verification.verify(to_json(built), kept.ledger, kept.table)) == []
    (training,) = EVENTS["training"]
    assert f.added_epsilon == pytest.approx(accountant.epsilon(training, 1e-6), rel=1e-6), "as it was planned"
    everything = [*EVENTS["profile"], training.with_steps(100)]
    assert f.epsilon == pytest.approx(accountant.epsilon(everything, 1e-6), rel=1e-4)
    assert f.epsilon > 1.2 * f.added_epsilon
    assert {m["release"] for m in f.reused} == {kept.release.id}
    assert [m["planned"]["steps"] for m in f.mechanisms] == [50]
    assert f.trade_off["right_guess"] < (1 + f.delta) * wording.odds_bound(f.epsilon) / (
        1 + wording.odds_bound(f.epsilon)
    )


@pytest.mark.parametrize("edit", ["dropped", "release", "added alone"])
def test_a_card_that_leaves_out_what_its_table_builds_upon_is_caught(kept, built, edit):
    told = json.loads(to_json(built))
    if edit == "dropped":
        del told["reused"][0]
    elif edit == "release":
        told["reused"][0]["release"] = "another"
    else:
        told |= {"epsilon": told["added_epsilon"]}
    found = broken(card_verification.verify(json.dumps(told), kept.ledger))
    expected = "epsilon of the table" if edit == "added alone" else "every mechanism of earlier releases"
    assert any(what.startswith(expected) for what in found)


def test_a_card_of_the_first_format_is_verified_as_what_it_said(tmp_path):
    """It stands beside a ledger of version 4, and says of a release with a reused profile what that release added."""
    ledgers, text = Path(__file__).parents[1] / "ledger", Path(__file__).with_name("card_1.json").read_text()
    with sqlite3.connect(tmp_path / "ledger.db") as rows:
        rows.executescript((ledgers / "version_4.sql").read_text())
    for suffix in ("key", "head"):
        shutil.copy(ledgers / f"version_4.{suffix}", tmp_path / f"ledger.db.{suffix}")
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    # That release was reserved for the file's sake, and read nothing.
    assert broken(card_verification.verify(text, ledger)) == ["what it read is on the ledger's record"]
    card = from_json(text)
    assert card.is_first_format
    assert any("is what this release added" in limit for limit in card.limits)
    assert (card.statements, card.added) == ([], "")
    assert json.loads(to_json(card))["format"] == "dp-synth/release-card/1"
    edited = json.loads(text) | {"epsilon": 0.01}
    assert "epsilon of the release" in broken(card_verification.verify(json.dumps(edited), ledger))


def test_a_card_of_the_second_format_that_an_earlier_version_wrote_verifies_and_is_shown(tmp_path):
    """It was written before cards named uses and a contact."""
    fixtures = Path(__file__).parent
    with sqlite3.connect(tmp_path / "ledger.db") as rows:
        rows.executescript((fixtures / "card_2.sql").read_text())
    for suffix in ("key", "head"):
        shutil.copy(fixtures / f"card_2.{suffix}", tmp_path / f"ledger.db.{suffix}")
    ledger, text = Ledger.open(str(tmp_path / "ledger.db")), (fixtures / "card_2.json").read_text()
    assert broken(card_verification.verify(text, ledger)) == []
    assert "intended_use" not in json.loads(text)
    edited = json.dumps(json.loads(text) | {"intended_use": ["Anything."]})
    assert broken(card_verification.verify(edited, ledger)) == [SEAL]
    shown = render_card(from_json(text))
    assert "What it is for" not in shown
    assert "No quality figure stands here" in shown


def test_another_layout_of_the_same_json_is_the_same_card(kept):
    shuffled = dict(reversed(json.loads(kept.text).items()))
    assert broken(card_verification.verify(json.dumps(shuffled, indent=7), kept.ledger)) == []


def test_the_card_of_another_ledger_is_caught(kept, tmp_path):
    other = Ledger.open(f"sqlite:///{tmp_path / 'other.db'}")
    other.open_account("people", epsilon=5.0, delta=1e-5)
    released(other)
    found = broken(card_verification.verify(kept.text, other))
    assert {SEAL, "the ledger knows the release", "the ledger still holds the head on the card"} <= set(found)


def test_a_ledger_that_was_rolled_back_is_caught(kept):
    later = released(kept.ledger, "later")
    with sqlite3.connect(kept.folder / "ledger.db") as db, sqlite3.connect(kept.folder / "copy.db") as copy:
        db.backup(copy)
    newest = released(kept.ledger, "newest")
    text = to_json(card_of(kept.ledger, newest, kept.table))
    with sqlite3.connect(kept.folder / "copy.db") as copy, sqlite3.connect(kept.folder / "ledger.db") as db:
        copy.backup(db)
    found = broken(card_verification.verify(text, Ledger.open(f"sqlite:///{kept.folder / 'ledger.db'}")))
    assert {"the ledger still holds the head on the card", "the ledger knows the release"} <= set(found)
    assert "the ledger's chain verifies" in found, "the head beside the key is one that it does not hold"
    assert later.id != newest.id


def test_a_ledger_that_does_not_verify_bears_nothing_out(kept):
    with sqlite3.connect(kept.folder / "ledger.db") as db:
        db.execute("UPDATE dp_account SET epsilon = 50.0")
    found = broken(card_verification.verify(kept.text, Ledger.open(f"sqlite:///{kept.folder / 'ledger.db'}")))
    assert "the ledger's chain verifies" in found


def test_a_release_that_never_settled_is_no_release(kept):
    held = {"table": "people", "run_id": "run-k", "code_version": "c0de"}
    open_one = kept.ledger.reserve("people", key="open", epsilon=1.0, delta=1e-6, **held)
    card = card_of(kept.ledger, kept.release, kept.table)
    text = to_json(ReleaseCard(dataclasses.replace(card.facts, release=open_one.id)).sealed(kept.ledger.seal))
    assert "the release is settled" in broken(card_verification.verify(text, kept.ledger))


def test_a_card_without_a_guarantee_is_verified_as_one_that_no_account_paid_for(kept):
    facts: dict[str, Any] = {
        "public_by": "Ana",
        "public_why": "open data",
        "guarantee": "none",
        "release": "unprotected-1",
    }
    public = CardFacts("t", "2026", 10, 2, None, None, ledger_head=kept.ledger.head(), **facts)
    text = to_json(ReleaseCard(public).sealed(kept.ledger.seal))
    assert broken(card_verification.verify(text, kept.ledger)) == []
    claimed = dataclasses.replace(public, release=kept.release.id)
    text = to_json(ReleaseCard(claimed).sealed(kept.ledger.seal))
    assert broken(card_verification.verify(text, kept.ledger)) == ["no account paid for this release, as the card says"]


def test_a_card_without_a_seal_says_what_to_do(kept):
    with pytest.raises(InvalidInput, match="materialize release_card again"):
        card_verification.verify(json.dumps(json.loads(kept.text) | {"seal": ""}), kept.ledger)


@pytest.fixture
def shell(kept, monkeypatch, capsys):
    """Runs `dp-synth card`; gives exit code and what was said."""
    monkeypatch.chdir(kept.folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("DP_SYNTH_HOME", str(kept.folder))
    monkeypatch.delenv("DP_SYNTH_LEDGER", raising=False)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["dp-synth", "card", *map(str, args)])
        try:
            code = cli.main() or 0
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def test_the_command_says_what_it_checked_and_exits_0(shell):
    code, said = shell("verify", "release_card.json", "--table", "people.parquet")
    assert (code, "Verified: all" in said, "the ledger's chain verifies" in said) == (0, True, True)


def test_the_command_exits_4_on_an_edited_card_or_file(shell, kept):
    shutil.copy("release_card.json", "true.json")
    told = json.loads(kept.text) | {"epsilon": 0.1}
    (kept.folder / "release_card.json").write_text(json.dumps(told))
    code, said = shell("verify", "release_card.json")
    assert (code, "card 0.1, ledger" in said, "Not verified" in said) == (4, True, True)
    kept.table.write_bytes(b"other rows")
    assert shell("verify", "true.json", "--table", kept.table)[0] == 4


@pytest.mark.parametrize("args", [("nowhere.json",), ("people.parquet",), ("release_card.json", "--ledger", "no.db")])
def test_the_command_exits_2_on_what_it_cannot_read_and_makes_no_ledger(shell, kept, args):
    code, said = shell("verify", *args)
    assert code == 2
    assert "Traceback" not in said
    assert not (kept.folder / "no.db").exists()


@pytest.mark.parametrize(
    ("format", "told"), [("markdown", "# people"), ("html", "<h1>people"), ("registry", "epsilon:")]
)
def test_the_command_writes_the_card_in_another_form(shell, kept, format, told):
    code, said = shell("export", "release_card.json", "--format", format)
    assert (code, told in said) == (0, True)
    assert shell("export", "release_card.json", "--format", format, "--out", "out.txt")[0] == 0
    assert told in (kept.folder / "out.txt").read_text()


def test_an_unknown_form_is_refused_with_the_known_ones(shell):
    code, said = shell("export", "release_card.json", "--format", "pdf")
    assert (code, "markdown, html, registry" in said) == (2, True)


def test_a_card_of_the_version_before_that_shows_a_fingerprint_is_still_true(kept):
    f = json.loads(kept.text)
    old = {k: v for k, v in f.items() if k != "seal"} | {"source_fingerprint": kept.ledger.seal("digest")}
    text = json.dumps(old | {"seal": kept.ledger.seal(card_verification.content(json.dumps(old)))})
    assert [c.what for c in card_verification.verify(text, kept.ledger) if not c.holds] == []
    edited = text.replace(kept.ledger.seal("digest"), "0" * 64)
    assert [c.what for c in card_verification.verify(edited, kept.ledger) if not c.holds]
    assert "source_fingerprint" not in to_json(card_verification.from_json(text)), "and it is not shown again"


def test_a_release_that_never_noted_what_it_read_is_told(kept):
    account = {"table": "people", "run_id": "run-k", "code_version": "c0de"}
    release = kept.ledger.reserve("people", key="unnoted", epsilon=1.0, delta=1e-6, **account)
    kept.ledger.start(release.id, "profile", EVENTS["profile"])
    text = to_json(card_of(kept.ledger, kept.ledger.settle(release.id), kept.table))
    told = [c.what for c in card_verification.verify(text, kept.ledger) if not c.holds]
    assert told == ["what it read is on the ledger's record"]


def under_an_umbrella(folder: Path) -> tuple[Ledger, CardFacts]:
    ledger = Ledger.open(f"sqlite:///{folder / 'clinic.db'}")
    ledger.open_account("clinic", epsilon=6.0, delta=1e-5, unit="id", umbrella=True)
    ledger.open_account("people", epsilon=5.0, delta=1e-5, max_rows=1, under="clinic")
    (folder / "t.parquet").write_bytes(b"synthetic rows")
    held = {"table": "people", "run_id": "run-k", "code_version": "c0de", "unit": "id"}
    release = ledger.reserve("people", key="k", epsilon=1.0, delta=1e-6, **held)
    for mechanism, events in EVENTS.items():
        ledger.start(release.id, mechanism, events)
    ledger.note_source(release.id, "digest")
    return ledger, card_of(ledger, ledger.settle(release.id), folder / "t.parquet").facts


def test_the_umbrella_on_a_card_must_be_the_one_that_was_charged_with_its_limit_then(tmp_path):
    ledger, facts = under_an_umbrella(tmp_path)
    told = {"unit": "id", "umbrella": "clinic", "umbrella_epsilon": 6.0, "umbrella_delta": 1e-5}

    def found(**changes):
        text = to_json(ReleaseCard(dataclasses.replace(facts, **{**told, **changes})).sealed(ledger.seal))
        return broken(card_verification.claims(text, ledger))

    ledger.raise_account("clinic", epsilon=8.0, why="w", who="w")
    assert found() == []
    assert found(umbrella="") == ["the umbrella"]
    assert found(umbrella="other") == ["the umbrella"]
    assert found(umbrella_epsilon=8.0) == ["the umbrella's limit"]
    page = render_card(ReleaseCard(dataclasses.replace(facts, **told)))
    assert "umbrella <code>clinic</code>" in page


def test_a_card_that_names_no_umbrella_of_an_account_under_none_stays_true(kept):
    data = json.loads(kept.text)
    assert data["umbrella"] == ""
    assert broken(card_verification.verify(kept.text, kept.ledger)) == []

"""The chain's head is signed and kept elsewhere, and a chain that was cut, rewritten or forked since is named by its row."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, anchors

WORD = {"why": "why", "who": "A. Officer"}


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Ana's key, a stranger's, and who may sign: Ana."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ana", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "allowed").write_text(f"ana,ana@clinic.example {(folder / 'ana.pub').read_text()}")
    return folder


def some(ledger: Ledger, *names: str) -> Ledger:
    """Add one journal row for each name."""
    for name in names:
        ledger.open_account(name, epsilon=1.0, delta=1e-5)
    return ledger


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return some(Ledger.open(str(tmp_path / "ledger.db")), "a", "b")


def copy(ledger: Ledger, folder: Path) -> Ledger:
    """Put a ledger with all its files elsewhere, as whoever may write to both can."""
    folder.mkdir()
    path = Path(ledger.place)
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, folder)
    return Ledger.open(str(folder / path.name))


def test_a_ledger_that_grew_holds_its_anchors_in_both_stores(url: str, signer: Path, tmp_path: Path) -> None:
    ledger, file = Ledger.open(url), tmp_path / "out.jsonl"
    for name in ("first", "second"):
        anchor, where = anchors.write(some(ledger, name), file, signer / "ana")
        assert where == file
    some(ledger, "third")
    assert [a.length for a in anchors.read(file)] == [1, 2]
    assert anchor.head != ledger.head()
    anchors.check(ledger, anchors.read(file), signer / "allowed")


def test_what_whoever_holds_the_key_can_forge_is_noticed_and_named_by_its_row(
    book: Ledger, signer: Path, tmp_path: Path
) -> None:
    file = tmp_path / "anchors.jsonl"
    anchors.write(book, file, signer / "ana")
    cut = copy(book, tmp_path / "cut")
    some(book, "c", "d")
    anchors.write(book, file, signer / "ana")
    anchors.check(book, anchors.read(file))
    cut.verify()
    with pytest.raises(LedgerCorrupted, match=r"truncated: the journal ends at row 2.*Row 3 .* missing; the 2 before"):
        anchors.check(cut, anchors.read(file))
    some(cut, "x").verify()
    with pytest.raises(LedgerCorrupted, match=r"truncated: .*Row 3 is the first .* 'opened' of account 'x'"):
        anchors.check(cut, anchors.read(file))
    some(cut, "y").verify()
    with pytest.raises(LedgerCorrupted, match=r"journal row 4\. It was rewritten.*Row 3 .* account 'x'"):
        anchors.check(cut, anchors.read(file))
    anchors.write(cut, file, signer / "ana")
    with pytest.raises(LedgerCorrupted, match=r"anchor 2, .* It was forked.*Row 3 .* account 'x'"):
        anchors.check(cut, anchors.read(file))
    with pytest.raises(LedgerCorrupted, match=r"anchor 3, .* It was forked.*Row 3 .* account 'c'"):
        anchors.check(book, anchors.read(file))


def test_an_anchor_that_was_edited_or_signed_by_a_stranger_or_not_at_all_is_refused(
    book: Ledger, signer: Path, tmp_path: Path
) -> None:
    file = tmp_path / "anchors.jsonl"
    good, _ = anchors.write(book, file, signer / "ana")
    strange, _ = anchors.write(book, tmp_path / "other.jsonl", signer / "stranger")
    later = anchors.Anchor(**{**vars(good), "at": "2030-01-01T00:00:00.000+00:00"})
    unsigned = anchors.Anchor(**{**vars(good), "signature": ""})
    for forged in (strange, later, unsigned):
        anchors.check(book, [good, forged])
        with pytest.raises(LedgerCorrupted, match=r"anchor 2, .* bears no signature"):
            anchors.check(book, [good, forged], signer / "allowed")
    elsewhere = some(Ledger.open(str(tmp_path / "elsewhere.db")), "a", "b")
    with pytest.raises(LedgerCorrupted, match="of another ledger"):
        anchors.check(elsewhere, [good])


def test_a_signature_that_was_made_for_something_else_is_none(book: Ledger, signer: Path, tmp_path: Path) -> None:
    good, _ = anchors.write(book, tmp_path / "anchors.jsonl", signer / "ana")
    (tmp_path / "text").write_bytes(good.signed)
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(signer / "ana"), "-n", "git", str(tmp_path / "text")],
        check=True, capture_output=True,
    )  # fmt: skip
    other = anchors.Anchor(**{**vars(good), "signature": (tmp_path / "text.sig").read_text()})
    with pytest.raises(LedgerCorrupted, match="bears no signature"):
        anchors.check(book, [other], signer / "allowed")


def test_anchors_in_a_git_repository_are_committed_and_pushed(
    book: Ledger, signer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ana")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ana@clinic.example")
    there, here = tmp_path / "there.git", tmp_path / "here"
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(there)], check=True)
    subprocess.run(["git", "clone", "--quiet", str(there), str(here)], check=True, capture_output=True)
    for name in ("c", "d"):
        _, file = anchors.write(some(book, name), here, signer / "ana")
    assert file == here / anchors.FILE
    log = subprocess.run(["git", "-C", str(there), "log", "--format=%s"], check=True, capture_output=True, text=True)
    key = anchors.read(here)[0].ledger[:12]
    assert log.stdout.splitlines() == [f"Ledger {key} at row 4", f"Ledger {key} at row 3"]
    anchors.check(book, anchors.read(here), signer / "allowed")


def test_what_cannot_be_signed_written_or_read_is_refused_by_name(book: Ledger, signer: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="ssh-keygen -Y sign failed"):
        anchors.write(book, tmp_path / "anchors.jsonl", tmp_path / "no key")
    assert not (tmp_path / "anchors.jsonl").exists()
    with pytest.raises(InvalidInput, match="cannot be written"):
        anchors.write(book, tmp_path / "no folder" / "anchors.jsonl", signer / "ana")
    with pytest.raises(InvalidInput, match="no file of anchors"):
        anchors.read(tmp_path / "nothing")
    (tmp_path / "anchors.jsonl").write_text(json.dumps({"head": "0"}) + "\n")
    with pytest.raises(InvalidInput, match=r"line 1 of .* is no anchor"):
        anchors.read(tmp_path / "anchors.jsonl")

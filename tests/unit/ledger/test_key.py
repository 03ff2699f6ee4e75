from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, key


@pytest.mark.parametrize("text", ["", "00", "no key", "ü"])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(LedgerCorrupted, match="backup"):
        key.read_key(tmp_path / "k", text)


def test_a_seal_is_stable_within_a_ledger_and_keyed(url: str, tmp_path: Path) -> None:
    here, elsewhere = Ledger.open(url), Ledger.open(str(tmp_path / "other.db"))
    assert here.seal("a card") == Ledger.open(url).seal("a card")
    assert here.seal("a card") != elsewhere.seal("a card")
    assert hashlib.sha256(b"a card").hexdigest() not in here.seal("a card")


def test_of_two_equal_contents_the_ledger_keeps_tokens_that_have_nothing_in_common(url: str) -> None:
    ledger = Ledger.open(url)
    first, second = ledger.encrypted_fingerprint("digest"), ledger.encrypted_fingerprint("digest")
    assert ledger.seal("digest") not in first + second
    assert len(first) == len(second) == 96
    agreeing = sum(a == b for a, b in zip(first, second, strict=True))
    assert agreeing < 30, "of 96 hexadecimal digits, 6 agree by chance; 30 or more do so once in 10**13"
    third = Ledger.open(url).encrypted_fingerprint("other")
    assert ledger.same_content({"a": first, "b": third, "c": second}) == [["a", "c"], ["b"]]


def test_a_token_is_read_with_the_key_that_made_it_and_no_other(tmp_path: Path) -> None:
    one, other = key.new_key(), key.new_key()
    fingerprint = key.fingerprint(one, "digest")
    token = key.encrypted(one, fingerprint)
    assert key.decrypted(one, token) == fingerprint
    assert key.decrypted(other, token) != fingerprint


def test_a_missing_or_swapped_key_stops_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(str(path))
    kept = tmp_path / "ledger.db.key"
    kept.unlink()
    with pytest.raises(LedgerCorrupted, match="missing"):
        Ledger.open(str(path))
    kept.write_text(key.new_key().hex())
    with pytest.raises(LedgerCorrupted, match="not the one"):
        Ledger.open(str(path))

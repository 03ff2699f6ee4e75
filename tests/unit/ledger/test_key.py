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


def test_a_fingerprint_is_stable_within_a_ledger_and_keyed(url: str, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"rows").hexdigest()
    here, elsewhere = Ledger.open(url), Ledger.open(str(tmp_path / "other.db"))
    assert here.fingerprint(digest) == Ledger.open(url).fingerprint(digest) == here.fingerprint(digest.encode())
    assert here.fingerprint(digest) != elsewhere.fingerprint(digest)
    assert digest not in here.fingerprint(digest)


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

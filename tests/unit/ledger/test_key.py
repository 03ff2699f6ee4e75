from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, key


def test_a_key_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    secret = key.new_key()
    key.write_key(tmp_path / "k", secret)
    assert key.read_key(tmp_path / "k") == secret
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["k"]


@pytest.mark.parametrize("text", ["", "00", "no key", "ü"])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text)
    with pytest.raises(LedgerCorrupted, match="backup"):
        key.read_key(tmp_path / "k")


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
    key.write_key(kept, key.new_key())
    with pytest.raises(LedgerCorrupted, match="not the one"):
        Ledger.open(str(path))

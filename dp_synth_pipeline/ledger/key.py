"""The ledger's secret key, which turns digests of private content into fingerprints that nobody else can recompute.

A plain hash of private rows is a membership oracle: whoever guesses a table can confirm it. A keyed one is not, as long
as the key stays with the ledger.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from dp_synth_pipeline.errors import LedgerCorrupted

KEY_BYTES = 32


def new_key() -> bytes:
    """Return a fresh key from the operating system's entropy."""
    return secrets.token_bytes(KEY_BYTES)


def key_id(key: bytes) -> str:
    """Return a public name of the key, by which a ledger notices that its key was swapped."""
    return hashlib.sha256(b"dp-synth ledger key id" + key).hexdigest()


def fingerprint(key: bytes, digest: str | bytes) -> str:
    """Return the keyed fingerprint (HMAC-SHA256, hex) of a content digest."""
    content = digest.encode() if isinstance(digest, str) else digest
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def read_key(path: Path, text: str | None) -> bytes:
    """Return the key that the file `path` holds as `text`; None: there is no such file.

    Raises:
        LedgerCorrupted: if it is missing or is not a key.
    """
    if text is None:
        raise LedgerCorrupted(
            f"the ledger's key {path} is missing. Restore it from the backup that holds the ledger: fingerprints made "
            f"with another key could never be compared."
        )
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerCorrupted(f"expected {KEY_BYTES} bytes in hexadecimal in {path}. Restore the key from a backup.")
    return key

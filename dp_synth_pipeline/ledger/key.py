"""The ledger's secret key, which turns digests of private content into fingerprints that nobody else can recompute.

A plain hash of private rows is a membership oracle: whoever guesses a table can confirm it. A keyed one is not, as long
as the key stays with the ledger.
"""

from __future__ import annotations

import hashlib
import hmac
import os
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


def write_key(path: Path, key: bytes) -> None:
    """Put the key on disk, readable by its owner alone, whole or not at all."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(handle, key.hex().encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(draft, path)
    if os.name == "posix":  # elsewhere a directory cannot be opened, nor need it be synced
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_key(path: Path) -> bytes:
    """Return the key on disk.

    Raises:
        LedgerCorrupted: if it is missing or is not a key.
    """
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        raise LedgerCorrupted(
            f"the ledger's key {path} is missing. Restore it from the backup that holds the ledger: fingerprints made "
            f"with another key could never be compared."
        ) from None
    except (ValueError, UnicodeDecodeError):
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerCorrupted(f"expected {KEY_BYTES} bytes in hexadecimal in {path}. Restore the key from a backup.")
    return key

"""The ledger's secret key, which turns digests of private content into fingerprints that nobody else can recompute.

A plain hash of private rows is a membership oracle: whoever guesses a table can confirm it. A keyed one is not, but two
equal ones still say that not one row came or went in between. So a fingerprint is kept encrypted with a fresh nonce.
Whoever lacks the key sees a random token for each release.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from dp_synth_pipeline.errors import LedgerCorrupted

KEY_BYTES = 32
NONCE_BYTES = 16


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


def encrypted(key: bytes, fingerprint: str) -> str:
    """Return a fingerprint as a random token (hex) that only the key turns back: a nonce, then the text under its pad.

    The pad is a pseudo-random function of a fresh nonce, so two tokens of one fingerprint have nothing in common.
    """
    nonce = secrets.token_bytes(NONCE_BYTES)
    return (nonce + _under_pad(key, nonce, bytes.fromhex(fingerprint))).hex()


def decrypted(key: bytes, token: str) -> str:
    """Return the fingerprint that `encrypted` hid; one that an earlier version kept in the open is returned as it is."""
    if len(token) != 2 * (NONCE_BYTES + hashlib.sha256().digest_size):
        return token
    content = bytes.fromhex(token)
    return _under_pad(key, content[:NONCE_BYTES], content[NONCE_BYTES:]).hex()


def _under_pad(key: bytes, nonce: bytes, text: bytes) -> bytes:
    own = hmac.new(key, b"dp-synth source", hashlib.sha256).digest()  # so that no fingerprint or seal is ever a pad
    pad = hmac.new(own, nonce, hashlib.sha256).digest()
    return bytes(a ^ b for a, b in zip(text, pad, strict=True))


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

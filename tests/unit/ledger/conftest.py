"""Makes the stores available to the tests of this folder."""

from __future__ import annotations

from tests.unit.ledger.stores import ledger, parted, url

__all__ = ["ledger", "parted", "url"]

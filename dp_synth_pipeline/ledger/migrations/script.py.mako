"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Add what version ${up_revision} needs; leave every row that is there as it is."""
    ${upgrades if upgrades else "pass"}

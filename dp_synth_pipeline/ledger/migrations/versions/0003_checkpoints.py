"""A ledger remembers its head: from this version on, one without a checkpoint has lost it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the place of the checkpoint on a server; beside a SQLite ledger it is a file."""
    op.create_table(
        "dp_checkpoint",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )

"""Quotas of an account by requester and purpose, and the purpose that each release was asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add both columns; an account that is there has no quota, and of its releases nobody recorded the purpose."""
    op.add_column("dp_account", sa.Column("quotas", sa.Text, nullable=False, server_default="[]"))
    op.add_column("dp_release", sa.Column("purpose", sa.Text, nullable=False, server_default=""))

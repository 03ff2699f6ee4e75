"""Umbrellas over accounts, the mirrors of what their members release, and charges that a person entered by hand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add what version 6 needs; an account that is there is no umbrella and under none, by the columns' defaults."""
    op.add_column("dp_account", sa.Column("umbrella", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("dp_account", sa.Column("under", sa.String(200)))
    op.add_column("dp_plan", sa.Column("mirrors", sa.String(32)))
    op.add_column("dp_release", sa.Column("mirrors", sa.String(32)))
    op.add_column("dp_release", sa.Column("by_hand", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("dp_release", sa.Column("umbrella_order", sa.Double))
    op.add_column("dp_release", sa.Column("umbrella_cost", sa.BigInteger))
    op.create_index("dp_release_mirrors", "dp_release", ["mirrors"], unique=True)

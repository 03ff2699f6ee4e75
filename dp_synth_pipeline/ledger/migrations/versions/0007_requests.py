"""Charges above a share of an account need a second person: the share, and the requests that wait, are approved or used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add what version 7 needs; an account that is there needs no second person, by the column's default."""
    op.add_column("dp_account", sa.Column("approve_above", sa.Double))
    op.create_table(
        "dp_request",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("account", sa.String(200), sa.ForeignKey("dp_account.name"), nullable=False),
        sa.Column("act", sa.String(16), nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.Column("terms_hash", sa.String(64), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("share", sa.Double, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("asked_at", sa.String(40), nullable=False),
        sa.Column("approved_by", sa.Text, nullable=False),
        sa.Column("approved_why", sa.Text, nullable=False),
        sa.Column("approved_at", sa.String(40)),
        sa.Column("used_at", sa.String(40)),
    )
    op.create_index("ix_dp_request_terms_hash", "dp_request", ["terms_hash"])

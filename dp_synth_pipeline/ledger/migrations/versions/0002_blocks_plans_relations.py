"""Blocks, declared plans, and a relation on every release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add what version 2 needs; every row that is there keeps its meaning by the columns' defaults."""
    op.add_column("dp_account", sa.Column("unit_in_one_block", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("dp_release", sa.Column("plan", sa.String(32)))
    op.add_column("dp_release", sa.Column("blocks", sa.Text, nullable=False, server_default="[]"))
    op.add_column("dp_release", sa.Column("relation", sa.String(16), nullable=False, server_default="add-remove"))
    op.create_index("dp_release_source", "dp_release", ["fingerprint"])
    op.create_table(
        "dp_block",
        sa.Column("account", sa.String(200), sa.ForeignKey("dp_account.name"), primary_key=True),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("cost_spent", sa.BigInteger, nullable=False),
        sa.Column("cost_held", sa.BigInteger, nullable=False),
        sa.Column("delta_spent", sa.BigInteger, nullable=False),
        sa.Column("delta_held", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "dp_plan",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("account", sa.String(200), sa.ForeignKey("dp_account.name"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("times", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("takes", sa.String(8), nullable=False),
        sa.Column("epsilon", sa.Double, nullable=False),
        sa.Column("delta", sa.Double, nullable=False),
        sa.Column("cost", sa.BigInteger, nullable=False),
        sa.Column("cost_delta", sa.BigInteger, nullable=False),
        sa.Column("relation", sa.String(16), nullable=False),
        sa.Column("declared_at", sa.String(40), nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.UniqueConstraint("account", "name", name="dp_plan_once"),
    )

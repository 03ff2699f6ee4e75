"""The first tables: the chain, accounts, releases and entries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables of version 1."""
    _store_and_journal()
    _accounts()
    _releases()
    _entries()
    op.create_index("ix_dp_journal_account", "dp_journal", ["account"])
    op.create_index("ix_dp_release_account", "dp_release", ["account"])
    op.create_index("ix_dp_entry_account", "dp_entry", ["account"])


def _store_and_journal() -> None:
    op.create_table(
        "dp_store",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.Column("head", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64)),
    )
    op.create_table(
        "dp_journal",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("release_id", sa.String(32)),
        sa.Column("entry_id", sa.String(32)),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
    )


def _accounts() -> None:
    op.create_table(
        "dp_account",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("max_rows", sa.BigInteger, nullable=False),
        sa.Column("relation", sa.String(16), nullable=False),
        sa.Column("epsilon", sa.Double, nullable=False),
        sa.Column("delta", sa.Double, nullable=False),
        sa.Column("rule", sa.String(8), nullable=False),
        sa.Column("order", sa.Double),
        sa.Column("cost_limit", sa.BigInteger, nullable=False),
        sa.Column("delta_limit", sa.BigInteger, nullable=False),
        sa.Column("opened_at", sa.String(40), nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("cost_spent", sa.BigInteger, nullable=False),
        sa.Column("cost_held", sa.BigInteger, nullable=False),
        sa.Column("delta_spent", sa.BigInteger, nullable=False),
        sa.Column("delta_held", sa.BigInteger, nullable=False),
    )


def _releases() -> None:
    op.create_table(
        "dp_release",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("account", sa.String(200), sa.ForeignKey("dp_account.name"), nullable=False),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("code_version", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Double, nullable=False),
        sa.Column("delta", sa.Double, nullable=False),
        sa.Column("own_delta", sa.Double, nullable=False),
        sa.Column("order", sa.Double),
        sa.Column("reserved_cost", sa.BigInteger, nullable=False),
        sa.Column("reserved_delta", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("charged_cost", sa.BigInteger),
        sa.Column("charged_delta", sa.BigInteger),
        sa.Column("final_epsilon", sa.Double),
        sa.Column("final_delta", sa.Double),
        sa.Column("fingerprint", sa.Text),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("reserved_at", sa.String(40), nullable=False),
        sa.Column("started_at", sa.String(40)),
        sa.Column("ended_at", sa.String(40)),
    )


def _entries() -> None:
    op.create_table(
        "dp_entry",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("release_id", sa.String(32), sa.ForeignKey("dp_release.id"), nullable=False),
        sa.Column("account", sa.String(200), sa.ForeignKey("dp_account.name"), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("mechanism", sa.Text, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("cost", sa.BigInteger, nullable=False),
        sa.Column("delta", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("steps_started", sa.BigInteger, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("started_at", sa.String(40), nullable=False),
        sa.Column("settled_at", sa.String(40)),
        sa.UniqueConstraint("release_id", "mechanism", name="dp_entry_once"),
    )

"""The tables of a ledger, the same on every store."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA_VERSION = 8
"""What a ledger must be at; an older one is upgraded by the scripts in `migrations` when it is opened."""

metadata = sa.MetaData()

store = sa.Table(
    "dp_store",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("length", sa.BigInteger, nullable=False),
    sa.Column("head", sa.String(64), nullable=False),
    sa.Column("key_id", sa.String(64), nullable=False),
    sa.Column("key", sa.String(64)),
)
"""One row: the chain's head, which every decision locks first, and the key where no file can hold it."""

checkpoint = sa.Table(
    "dp_checkpoint",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
)
"""One row: the last checkpoint, where no file beside the ledger can hold it."""

journal = sa.Table(
    "dp_journal",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(40), nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("action", sa.String(16), nullable=False),
    sa.Column("account", sa.Text, nullable=False, index=True),
    sa.Column("release_id", sa.String(32)),
    sa.Column("entry_id", sa.String(32)),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
)

account = sa.Table(
    "dp_account",
    metadata,
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
    sa.Column("unit_in_one_block", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("umbrella", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("under", sa.String(200)),
    sa.Column("approve_above", sa.Double),
    sa.Column("quotas", sa.Text, nullable=False, server_default="[]"),
)
"""Besides what was opened, the balance: maintained in the decision's own transaction, verified against releases."""

block = sa.Table(
    "dp_block",
    metadata,
    sa.Column("account", sa.ForeignKey("dp_account.name"), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("cost_spent", sa.BigInteger, nullable=False),
    sa.Column("cost_held", sa.BigInteger, nullable=False),
    sa.Column("delta_spent", sa.BigInteger, nullable=False),
    sa.Column("delta_held", sa.BigInteger, nullable=False),
)
"""What releases over this block alone took; the account's own row comes on top of it."""

plan = sa.Table(
    "dp_plan",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.ForeignKey("dp_account.name"), nullable=False),
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
    sa.Column("mechanisms", sa.Text, nullable=False, server_default="[]"),
    sa.Column("mirrors", sa.String(32)),
    sa.UniqueConstraint("account", "name", name="dp_plan_once"),
)

release = sa.Table(
    "dp_release",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.ForeignKey("dp_account.name"), nullable=False, index=True),
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
    sa.Column("plan", sa.String(32)),
    sa.Column("blocks", sa.Text, nullable=False, server_default="[]"),
    sa.Column("relation", sa.String(16), nullable=False, server_default="add-remove"),
    sa.Column("mirrors", sa.String(32)),
    sa.Column("by_hand", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("umbrella_order", sa.Double),
    sa.Column("umbrella_cost", sa.BigInteger),
    sa.Column("purpose", sa.Text, nullable=False, server_default=""),
    sa.Index("dp_release_source", "fingerprint"),
    sa.Index("dp_release_mirrors", "mirrors", unique=True),
)

entry = sa.Table(
    "dp_entry",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("release_id", sa.ForeignKey("dp_release.id"), nullable=False),
    sa.Column("account", sa.ForeignKey("dp_account.name"), nullable=False, index=True),
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
    sa.Column("planned", sa.Text, nullable=False, server_default="[]"),
    sa.Column("upon", sa.Text),
    sa.UniqueConstraint("release_id", "mechanism", name="dp_entry_once"),
)

request = sa.Table(
    "dp_request",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.ForeignKey("dp_account.name"), nullable=False),
    sa.Column("act", sa.String(16), nullable=False),
    sa.Column("terms", sa.Text, nullable=False),
    sa.Column("terms_hash", sa.String(64), nullable=False, index=True),
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
"""What waits for a second person, was approved by one, or was approved and done."""

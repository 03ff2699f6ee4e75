"""A declared plan says which mechanism of a release each of its events belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the tags beside the events; a plan that is there names no mechanisms, by the column's default."""
    op.add_column("dp_plan", sa.Column("mechanisms", sa.Text, nullable=False, server_default="[]"))

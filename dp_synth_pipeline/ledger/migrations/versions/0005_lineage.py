"""An entry says which earlier entries it builds upon, and what it was started for if it was settled for fewer steps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add both columns; of an entry that is there nobody recorded what it builds upon, which is not the same as nothing."""
    op.add_column("dp_entry", sa.Column("planned", sa.Text, nullable=False, server_default="[]"))
    op.add_column("dp_entry", sa.Column("upon", sa.Text))

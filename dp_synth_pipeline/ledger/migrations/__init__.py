"""How a ledger of an older version becomes one of this version: Alembic scripts, run in the transaction they are given.

The version is kept in the ledger's own first row, under the lock that every decision takes, so that two processes never
upgrade one ledger twice. Alembic is imported only when there is something to upgrade.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa


def upgrade(conn: sa.Connection, version: int, to: int) -> None:
    """Bring the tables from `version` to `to`, inside the caller's transaction."""
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(Path(__file__).parent))
    steps = list(scripts.iterate_revisions(f"{to:04d}", f"{version:04d}" if version else "base"))
    with Operations.context(MigrationContext.configure(conn)):
        for step in reversed(steps):
            step.module.upgrade()

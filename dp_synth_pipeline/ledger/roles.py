"""What a pipeline's role on a PostgreSQL server may do with a ledger: reserve and settle, and nothing that a person decides.

The server enforces it, for whatever program uses the role: it appends no row of the journal that opens, raises, amends,
approves, plans, charges by hand or adopts, changes no row of it, and writes no column of an account but its balance. That
its releases follow the ledger's rule is not the server's to know: `verify` recomputes that from the journal.
"""

from __future__ import annotations

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import journal, tables, trouble
from dp_synth_pipeline.ledger.entry import APPROVED, RESERVED, SETTLED, STARTED, USED, VOIDED, WAITING
from dp_synth_pipeline.ledger.ledger import Ledger

ACTIONS = (
    RESERVED, STARTED, "marked", "source", SETTLED, "settled at mark", VOIDED, "blocks added", journal.REQUESTED,
)  # fmt: skip
"""The rows of the journal that a pipeline appends."""

BALANCE = "cost_spent, cost_held, delta_spent, delta_held"

RIGHTS = (
    (tables.journal, "INSERT"),
    (tables.release, "INSERT, UPDATE"),
    (tables.entry, "INSERT, UPDATE"),
    (tables.block, f"INSERT, UPDATE ({BALANCE})"),
    (tables.account, f"UPDATE ({BALANCE})"),
    (tables.plan, "UPDATE (used)"),
    (tables.request, "INSERT, UPDATE (state, used_at)"),
    (tables.store, "UPDATE (length, head)"),
    (tables.checkpoint, "UPDATE (text)"),
)
"""What a pipeline may do beside reading."""


def statements(schema: str, role: str) -> list[str]:
    """Return the SQL that gives a role these rights and no others on the ledger in a schema; both names are quoted."""
    policies = {
        tables.journal: f"FOR INSERT TO {role} WITH CHECK (action IN ({', '.join(map(_text, ACTIONS))}))",
        tables.request: f"FOR INSERT TO {role} WITH CHECK (state = {_text(WAITING)} AND approved_by = '')",
    }
    use = f"FOR UPDATE TO {role} USING (state = {_text(APPROVED)}) WITH CHECK (state = {_text(USED)})"
    sql = [f"GRANT USAGE ON SCHEMA {schema} TO {role}"]
    for table, rights in RIGHTS:
        name = f"{schema}.{table.name}"
        sql += [f"REVOKE ALL ON {name} FROM {role}", f"GRANT SELECT, {rights} ON {name} TO {role}"]
    for table, policy in policies.items():
        sql.append(f"ALTER TABLE {schema}.{table.name} ENABLE ROW LEVEL SECURITY")
        sql += _policy(f"{schema}.{table.name}", "dp_read", "FOR SELECT USING (true)")
        sql += _policy(f"{schema}.{table.name}", _named("append", role), policy)
    return [*sql, *_policy(f"{schema}.{tables.request.name}", _named("use", role), use)]


def grant(ledger: Ledger, role: str) -> list[str]:
    """Give a role of the server what a pipeline needs of a ledger, and take from it all else; return the SQL that ran.

    Whoever calls this owns the tables. Rights that the role has by being a superuser, the owner or a member of either stay.

    Raises:
        InvalidInput: if the ledger is a file, there is no such role, or it may do all as the owner.
    """
    store = ledger._store
    if store.place.path is not None:
        raise InvalidInput(
            "roles are those of a PostgreSQL server. Of a SQLite ledger the file's owner may do everything: keep the file, "
            "its key and its head where only the pipeline's user can write, or move to PostgreSQL."
        )
    with trouble.named(store.place), store.engine.begin() as conn:
        query = sa.text(
            "SELECT r.rolsuper OR pg_has_role(r.oid, t.relowner, 'MEMBER') FROM pg_roles r, pg_class t "
            "WHERE r.rolname = :role AND t.oid = to_regclass('dp_journal')"
        )
        owns = conn.execute(query, {"role": role}).scalar()
        if owns is None or owns:
            why = f"there is no role {role!r}" if owns is None else f"role {role!r} is the owner's, or a superuser"
            raise InvalidInput(
                f"{why} on this server. Make one that owns nothing, CREATE ROLE NAME LOGIN, for the pipeline to connect as."
            )
        quote = conn.dialect.identifier_preparer.quote_identifier
        schema = quote(str(conn.execute(sa.text("SELECT current_schema()")).scalar()))
        ran = statements(schema, quote(role))
        for statement in ran:
            conn.exec_driver_sql(statement.replace("%", "%%"))
    return ran


def _text(word: str) -> str:
    return f"'{word}'"


def _named(what: str, role: str) -> str:
    return f'"dp_{what}_{role[1:]}'


def _policy(table: str, name: str, policy: str) -> list[str]:
    return [f"DROP POLICY IF EXISTS {name} ON {table}", f"CREATE POLICY {name} ON {table} {policy}"]

"""Guesses from the names of columns alone how tables hang together; a person looks the guess over."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from dp_synth_pipeline.errors import InvalidInput

ENDINGS = ("_id", "_key", "_no", "id")
"""How the name of a key ends, the likeliest first."""


BIRTHS = ("birth", "born", "dob")
"""What names of dates have in them that are the same in all rows of a person."""


def guess(
    columns: Mapping[str, Sequence[str]],
    root: str | None = None,
    public: Collection[str] = (),
    dates: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, dict[str, object]]:
    """Return a `key`, a `parent`, an `order` and what it `refers` to for each table, as its settings have them.

    A key is called after its table, such as `visit_id` of `visits`; of a public table to which others refer by such a name,
    it is else the first column. A parent is the table whose key another one has as a column; of several, the one that has
    most parents itself: a prescription of a visit is a patient's by way of the visit. The rows of one parent are in the
    order of their first date, but for dates of birth.

    Args:
        columns: the names of each table's columns, which are public.
        root: the table of the persons, if one says it. Its key may be called anything then, unless another table has one
            that is called after it: it is the one column that all tables without another parent have too.
        public: tables that somebody declares public, which have no parent.
        dates: the columns of each table that hold dates or datetimes, as its schema says; of a CSV, none does.

    Raises:
        InvalidInput: if no table is the root, or several are; or if the named one is none, or its key is not told.

    Example:
        >>> guess({"visits": ["visit_id", "patient_id", "day"], "patients": ["patient_id", "sex"]})
        {'visits': {'key': 'visit_id', 'parent': {'patient_id': 'patients'}}, 'patients': {'key': 'patient_id'}}
    """
    keys = _keys(columns, public)
    _check_public(public, columns, keys)
    learnt = {table: names for table, names in columns.items() if table not in public}
    refers = {table: _referring(table, names, keys) for table, names in learnt.items()}
    above = {table: {c: other for c, other in found.items() if other in learnt} for table, found in refers.items()}
    if root is not None:
        _hang_on(root, learnt, keys, above)
    _check_root([table for table in learnt if not above[table]])
    guessed: dict[str, dict[str, object]] = {table: {"key": keys[table]} if table in keys else {} for table in columns}
    for table in above:
        referred = {c: other for c, other in refers[table].items() if other in public}
        guessed[table] |= _place(above, table, dates.get(table, ())) | ({"refers": referred} if referred else {})
    return guessed


def _place(above: Mapping[str, Mapping[str, str]], table: str, dates: Sequence[str]) -> dict[str, object]:
    """Return the parent of a table's rows and their order, as far as there is one."""
    parents = above[table]
    if not parents:
        return {}
    column = max(parents, key=lambda c: (_depth(above, parents[c], ()), c))
    times = [date for date in dates if not any(birth in date.lower() for birth in BIRTHS)]
    return {"parent": {column: parents[column]}, **({"order": times[0]} if times else {})}


def _check_public(public: Collection[str], columns: Collection[str], keys: Collection[str]) -> None:
    """Refuse public tables that are not there, or whose keys their columns' names do not tell."""
    for name in public:
        if name not in columns:
            raise InvalidInput(f"--public {name}: there is no such table; there are {', '.join(columns)}.")
        if name not in keys:
            raise InvalidInput(
                f"--public {name}: no column is called after it, here or in another table, as {name}_id would be, so names "
                f"do not tell its key. Write a YAML file that says it: dp-synth docs databases."
            )


def _keys(columns: Mapping[str, Sequence[str]], public: Collection[str]) -> dict[str, str]:
    """Return the key of each table that has one: called after it, or else the first column of a public one."""
    found = {table: key for table, names in columns.items() if (key := _key(table, names)) is not None}
    for table in (table for table in public if table not in found and columns.get(table)):
        if any(_called_after(table, names) for other, names in columns.items() if other != table):
            found[table] = columns[table][0]
    return found


def _check_root(roots: Sequence[str]) -> None:
    """Refuse tables of which not exactly one has no parent."""
    if len(roots) != 1:
        found = f"{len(roots)} tables have no other's key: {', '.join(roots)}" if roots else "each has another's key"
        raise InvalidInput(
            f"the names of the columns do not tell which table's rows are the persons ({found}). Name it by --root TABLE. "
            f"If everybody may see another one, such as a catalogue, say so by --public TABLE=REASON. Or write a YAML file "
            f"that says of each table its key and its parent: dp-synth docs databases."
        )


def _hang_on(
    root: str, columns: Mapping[str, Sequence[str]], keys: dict[str, str], above: dict[str, dict[str, str]]
) -> None:
    """Let tables that have no parent belong, in place, to a root that a person named: by the column that they share."""
    if root not in columns:
        raise InvalidInput(f"--root {root}: there is no such table; there are {', '.join(columns)}.")
    above[root] = {}
    orphans = [table for table in columns if table != root and not above[table]]
    referred = any(root in parents.values() for parents in above.values())
    candidates = [keys[root]] if referred else columns[root]
    shared = [name for name in candidates if all(name in columns[table] for table in orphans)]
    if orphans and len(shared) != 1:
        found = f"there is more than one: {', '.join(shared)}" if shared else "there is none"
        told = (
            f"its key is {keys[root]}, of which {', '.join(orphans)} say nothing"
            if referred
            else f"its key is the column that {', '.join(orphans)} have too, and {found}"
        )
        raise InvalidInput(
            f"--root {root}: {told}. Of a table that everybody may see, say so: --public {orphans[0]}=REASON. Else write a "
            f"YAML file that says of each table its key and its parent: dp-synth docs databases."
        )
    for table in orphans:
        above[table] = {shared[0]: root}
        if keys.get(table) == shared[0]:
            del keys[table]
    keys |= {root: shared[0]} if orphans else {}


def _key(table: str, names: Sequence[str]) -> str | None:
    """Return the column that is called after its table, such as `patient_id`, `patientID` or plain `id`."""
    return _called_after(table, names) or next((name for name in names if name.lower() == "id"), None)


def _referring(table: str, names: Sequence[str], keys: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a table that hold others' keys, each with the other table."""
    return {c: other for other, key in keys.items() if other != table and (c := _reference(other, key, names))}


def _reference(table: str, key: str, names: Sequence[str]) -> str | None:
    """Return the column of another table that holds this table's key: of the same name, or called after it."""
    return key if key.lower() != "id" and key in names else _called_after(table, names)


def _called_after(table: str, names: Sequence[str]) -> str | None:
    stems = {table.lower(), table.lower().removesuffix("s"), table.lower().removesuffix("es")}
    if table.lower().endswith("ies"):
        stems.add(f"{table.lower()[:-3]}y")
    wanted = [{f"{stem}{ending}" for stem in stems} for ending in ENDINGS]
    return next((name for called in wanted for name in names if name.lower() in called), None)


def _depth(above: Mapping[str, Mapping[str, str]], table: str, seen: tuple[str, ...]) -> int:
    if table in seen:
        return 0
    return max((1 + _depth(above, parent, (*seen, table)) for parent in above[table].values()), default=0)

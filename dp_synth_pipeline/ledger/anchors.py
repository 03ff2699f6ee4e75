"""The chain's head, signed and written where whoever holds the ledger cannot rewrite it, and compared with the chain later.

An anchor is one line of JSON in a file that only grows. Its signature is one of SSH (`ssh-keygen -Y sign`), so keys in an
agent or on a token can make it, and a file of allowed signers, as git has one, says whose counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import journal, tables
from dp_synth_pipeline.ledger.entry import JournalRow
from dp_synth_pipeline.ledger.ledger import Ledger

FORMAT = "dp-synth/anchor/1"
NAMESPACE = "dp-synth-anchor"
"""What a signature is for: one of another namespace, such as git's, is none here."""

FILE = "anchors.jsonl"
"""The file in a folder or a git repository that is named as a place for anchors."""


@dataclass(frozen=True)
class Anchor:
    """The head of one ledger's chain at one moment.

    Attributes:
        at: when it was taken, ISO text in UTC.
        ledger: the public name of the ledger's key.
        length: how many rows its journal had.
        head: the hash of the last of them.
        signature: SSH's, in its armour, over `signed`.
    """

    at: str
    ledger: str
    length: int
    head: str
    signature: str = ""
    format: str = FORMAT

    @property
    def signed(self) -> bytes:
        """The bytes that the signature covers: everything else, as canonical JSON."""
        return json.dumps({k: v for k, v in asdict(self).items() if k != "signature"}, sort_keys=True).encode()


def write(ledger: Ledger, to: str | Path, key: str | Path) -> tuple[Anchor, Path]:
    """Sign the chain's head and append it to a file, to the file of a folder, or to that of a git repository.

    In a repository it is committed, and pushed if that has a remote. Only what others hold cannot be rewritten here.

    Args:
        key: a private SSH key, or the public one of a key that an agent or a token holds.

    Raises:
        InvalidInput: if there is no such key, it cannot sign, or the place cannot be written.

    Returns:
        The anchor, and the file that has it.
    """
    with ledger._store.read() as conn:
        state = conn.execute(sa.select(tables.store)).mappings().one()
    anchor = Anchor(journal.now(), state["key_id"], state["length"], state["head"])
    signature = _run(["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE], anchor.signed)
    anchor = Anchor(**{**asdict(anchor), "signature": signature})
    place = Path(to)
    file = place / FILE if place.is_dir() else place
    try:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(anchor), sort_keys=True) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
    except OSError as error:
        raise InvalidInput(f"--to {to}: cannot be written ({error.strerror}); name a file or a folder.") from None
    if (place / ".git").exists():
        _commit(place, anchor)
    return anchor, file


def read(file: str | Path) -> list[Anchor]:
    """Return the anchors of a file in their order.

    Raises:
        InvalidInput: if there is no such file, or a line of it is no anchor.
    """
    place = Path(file)
    place = place / FILE if place.is_dir() else place
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(f"--anchors {file}: there is no file of anchors that can be read.") from None
    anchors = []
    for number, line in enumerate(lines, start=1):
        try:
            anchors.append(Anchor(**json.loads(line)))
            if anchors[-1].format != FORMAT or not isinstance(anchors[-1].length, int):
                raise ValueError
        except (ValueError, TypeError):
            raise InvalidInput(
                f"line {number} of {place} is no anchor of this version; nothing was compared."
            ) from None
    return anchors


def check(ledger: Ledger, anchors: Sequence[Anchor], signers: str | Path | None = None) -> None:
    """Compare each anchor with the chain, or name the first journal row after the break.

    Args:
        signers: OpenSSH's file of allowed signers; each anchor must then bear the signature of one of them.

    Raises:
        LedgerCorrupted: if the chain lacks what an anchor tells of, or an anchor is forged or another ledger's.
    """
    with ledger._store.read() as conn:
        own = conn.execute(sa.select(tables.store.c.key_id)).scalar_one()
        chain = journal.rows(conn)
    heads = [journal.GENESIS, *(row.hash for row in chain)]
    for number, anchor in enumerate(anchors, start=1):
        if signers is not None and not _is_signed(anchor, Path(signers)):
            raise LedgerCorrupted(
                f"anchor {number}, of {anchor.at}, bears no signature of anybody whom {signers} allows: it was edited, or "
                f"somebody else made it. Get the anchors from where they were kept."
            )
        if anchor.ledger != own:
            raise LedgerCorrupted(
                f"anchor {number}, of {anchor.at}, is of another ledger than this one. Name the right file."
            )
        if not _holds(heads, anchor):
            _broken(anchors, number, chain, heads)


def _holds(heads: Sequence[str], anchor: Anchor) -> bool:
    return 0 <= anchor.length < len(heads) and heads[anchor.length] == anchor.head


def _broken(anchors: Sequence[Anchor], number: int, chain: Sequence[JournalRow], heads: Sequence[str]) -> NoReturn:
    """Raise what is known of a break: how it came about, and the first row that no anchor vouches for."""
    anchor, same = anchors[number - 1], [a for a in anchors if _holds(heads, a)]
    sure = max((a.length for a in same if a.length < anchor.length), default=0)
    if anchor.length > len(chain):
        how = f"truncated: the journal ends at row {len(chain)}"
    elif any(a.length >= anchor.length for a in same):
        how = "forked: a further anchor tells of the history that is here, and this one of another"
    else:
        how = "rewritten: another row is in its place"
    first = next((f"{r.action!r} of account {r.account!r}, at {r.at}" for r in chain if r.seq == sure + 1), "missing")
    raise LedgerCorrupted(
        f"the ledger does not hold what anchor {number}, of {anchor.at}, saw at its head, journal row {anchor.length}. It "
        f"was {how}. Row {sure + 1} is the first that no anchor vouches for, and it is {first}; the {sure} before it are as "
        f"they were anchored. Stop all runs, and restore the ledger as it was."
    )


def _is_signed(anchor: Anchor, signers: Path) -> bool:
    if not signers.is_file():
        raise InvalidInput(
            f"--signers {signers}: there is no such file; write one as ssh-keygen's ALLOWED SIGNERS has it."
        )
    with tempfile.TemporaryDirectory() as folder:
        signature = Path(folder) / "signature"
        signature.write_text(anchor.signature)
        try:
            known = ["-s", str(signature), "-f", str(signers)]
            who = _run(["ssh-keygen", "-Y", "find-principals", *known], b"").split(",")[0].splitlines()[0]
            _run(["ssh-keygen", "-Y", "verify", "-I", who, "-n", NAMESPACE, *known], anchor.signed)
        except (_Failed, IndexError):
            return False
    return True


def _commit(repository: Path, anchor: Anchor) -> None:
    git = ["git", "-C", str(repository)]
    _run([*git, "add", FILE])
    _run([*git, "commit", "--quiet", "-m", f"Ledger {anchor.ledger[:12]} at row {anchor.length}", "--", FILE])
    if _run([*git, "remote"]).strip():
        _run([*git, "push", "--quiet"])


class _Failed(InvalidInput):
    """A program ended with an error."""


def _run(command: list[str], given: bytes = b"") -> str:
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise InvalidInput(f"anchors need the program {command[0]}, which is not installed here.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"it ended with {done.returncode}"
        raise _Failed(f"{' '.join(command[:3])} failed: {said}")
    return done.stdout.decode(errors="replace")

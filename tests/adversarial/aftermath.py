"""What a person does after a release was killed: goes on, and then follows the printed advice word for word.

A `Bench` is a folder with a home and two tables in it, of which copies are kept and put back. A `Person` acts in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.adversarial.killing import REPOSITORY, Done, Runner, without_ids

ACCOUNT, OTHER = "people", "shops"
ENOUGH_FOR_TWO = "1.8"
ROWS = 900

ENDING = re.compile(r"dp-synth ledger (?:void|settle) \S+(?: --at-mark)? --why REASON")
RESUMING = re.compile(r"same command (?:and|with) --resume|(?:^|[.:;] )[Gg]o on with [^.]*--resume")
AGAIN = re.compile(r"[Rr]un (?:it )?(?:again )?without --resume")
SAID_BEFORE = re.compile(r"(?i)can pay for (?:no other release|one more release of epsilon)")
"""What must be printed before a person gives up a release whose account cannot pay for another."""

MOST_ACTS = 6


class Trouble(Exception):
    """What must never happen after a kill."""


@dataclass
class Bench:
    """A folder whose states can be kept and put back: a kill leaves files, and locks die with their process.

    Attributes:
        runner: runs commands in the folder.
        rule: of the account: `filter`, opened by a person for two releases, or `plan`, opened by the first run for itself.
        environment: what the commands find besides the runner's own.
    """

    runner: Runner
    rule: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where the commands run."""
        return self.runner.folder

    def empty(self) -> None:
        """Delete what is in the folder; the folder stays, since processes run in it."""
        for one in self.folder.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()

    def prepare(self) -> None:
        """Leave nothing in the folder but a home without a past, and the tables."""
        self.empty()
        (self.folder / "home").mkdir()
        shutil.copy(REPOSITORY / "dagster_home" / "dagster.yaml", self.folder / "home")
        for name, number in ((ACCOUNT, "age"), (OTHER, "size")):
            rows = "\n".join(f"{'abc'[i % 3]},{20 + i * 7 % 50}" for i in range(ROWS))
            (self.folder / f"{name}.csv").write_text(f"kind,{number}\n{rows}\n")

    def open_account(self) -> None:
        """Open the account if a person does so; one for exactly one release is opened by its run."""
        if self.rule == "filter":
            assert self.run("ledger", "open", ACCOUNT, "--epsilon", ENOUGH_FOR_TWO, "--delta", "1e-5").code == 0

    def run(self, *argv: str, **how: Any) -> Done:
        """Run a command."""
        return self.runner.run(*argv, environment=self.environment, **how)

    def synthesize(self, *options: str, account: str = ACCOUNT, out: str = "", **how: Any) -> Done:
        """Make the release of an account, into a file of its name."""
        words = ["synthesize", f"{account}.csv", "--out", out or f"{account}.parquet", "--epsilon", "1"]
        words += ["--account", account, "--purpose", "testing"]
        if account != ACCOUNT or self.rule == "plan":
            words.append("--open-account")
        return self.run(*words, *options, **how)

    def keep(self, where: Path) -> None:
        """Copy the folder."""
        shutil.copytree(self.folder, where)

    def put_back(self, where: Path) -> None:
        """Make the folder what it was."""
        self.empty()
        shutil.copytree(where, self.folder, dirs_exist_ok=True)

    def digest(self) -> str:
        """Return a digest of all names and bytes; without SQLite's shared memory, which the next to open it rebuilds."""
        found = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            if not path.name.endswith("-shm"):
                found.update(f"{path.relative_to(self.folder)}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"")
        return found.hexdigest()

    def accounts(self) -> dict[str, Any]:
        """Return the ledger's accounts.

        Raises:
            Trouble: if it does not verify, or more is spent than was given.
        """
        try:
            found = self.runner.ledger(self.environment)
        except AssertionError as error:
            raise Trouble(f"the ledger does not verify: {error}") from None
        for name, account in found.items():
            if account["spent"] > account["limit"] + 1e-9:
                raise Trouble(f"overspent: {account['spent']} of {account['limit']} of {name}")
        return found


@dataclass
class Scene:
    """What a kill leaves at some points of a release, which all leave the very same.

    Attributes:
        points: names of those points.
        number: which of the states that were met it is, from the first on.
        where: the copy.
    """

    number: int
    where: Path
    points: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Past:
    """All that a kill may leave of one release.

    Attributes:
        base: what there was before it began: the other table's run, killed long ago.
        scenes: in the order in which they were met.
    """

    base: Path
    scenes: list[Scene]


def past(bench: Bench, folder: Path) -> Past:
    """Make one release unharmed, standing still at each durable point, and keep what a kill would leave there.

    A process that stands still (SIGSTOP) has given to the kernel exactly what it has when it is killed. Its locks are not
    in the copy, and those of a killed process are gone.
    """
    found: dict[str, Scene] = {}
    bench.prepare()
    begin_other(bench)
    bench.open_account()
    bench.keep(folder / "base")

    def stop(point: str) -> None:
        digest = bench.digest()
        if digest not in found:
            found[digest] = Scene(len(found), folder / str(len(found)))
            bench.keep(found[digest].where)
        found[digest].points.append(point)

    done = bench.synthesize(stop=stop, limit=240)
    assert done.code == 0, done.text
    assert not done.missed, f"durable points that nothing wraps: {done.missed}"
    return Past(folder / "base", list(found.values()))


@dataclass
class Person:
    """Goes on after a kill until the output is there, or nothing is left to pay for another."""

    bench: Bench
    told: list[str] = field(default_factory=list)

    def go_on(self) -> str:
        """Resume, then do what is printed; return how it ended: `released`, or `refused` as was said before.

        Raises:
            Trouble: if it ends otherwise, or not at all.
        """
        self.bench.accounts()
        followed: set[str] = set()
        act, text = "resume", ""
        for _ in range(MOST_ACTS):
            before, (code, text) = text, self._do(act)
            if not self._missing():
                return "released"
            if code == 0 and act in ("resume", "again"):
                raise Trouble(f"{act} says that it is done, and it is not: {self._missing()}")
            if code == 3 and act == "again":
                return self._refused()
            if code != 0 and _told_again(text, before):
                raise Trouble(f"the advice leads back to itself: {text[-300:]}")
            if act.startswith("dp-synth"):
                if code != 0:
                    raise Trouble(f"{act}: exit code {code}: {text[-300:]}")
                act = "again"
                continue
            offers = [offer for offer in _offers(text) if offer not in followed]
            if not offers:
                raise Trouble(f"{act}: exit code {code}, and no advice that was not followed: {text[-400:]}")
            act = offers[0]
            followed.add(act)
        raise Trouble(f"not at an end after {MOST_ACTS} acts: {' | '.join(t[-200:] for t in self.told)}")

    def _do(self, act: str) -> tuple[int, str]:
        if act.startswith("dp-synth"):
            done = self.bench.run(*[w if w != "REASON" else "the machine died" for w in act.split()[1:]])
        else:
            done = self.bench.synthesize(*(["--resume"] if act == "resume" else []))
        if done.code is None:
            raise Trouble(f"{act} hangs; it printed: {done.text[-300:]}")
        for never in ("Traceback (most recent call last)", "stopped on an unexpected"):
            if never in done.text:
                raise Trouble(f"{act}: {never}: {done.text[-400:]}")
        self.told.append(done.text)
        return done.code, done.text

    def _missing(self) -> str:
        """Return what is missing of a release that was paid for once and is there with its card; empty if nothing is."""
        mine = self.bench.accounts().get(ACCOUNT, {"releases": []})["releases"]
        out, card = self.bench.folder / f"{ACCOUNT}.parquet", self._card()
        if not out.exists():
            return "the output"
        if not card.exists():
            return "the card"
        still = [r["id"] for r in mine if r["state"] in ("reserved", "started")]
        if still:
            return f"an end of release {still}"
        paid = [r["id"] for r in mine if r["released"]]
        of = json.loads(card.read_text())["release"]
        if [of] != paid:
            return f"the card or the rows of a release that was paid for: paid {paid}, card of {of}"
        checked = self.bench.run("card", "verify", str(card), "--table", str(out))
        return "" if checked.code == 0 else f"a card that verifies: {checked.text[-300:]}"

    def _card(self) -> Path:
        return self.bench.folder / "home" / "store" / "releasable" / ACCOUNT / "release_card.json"

    def _refused(self) -> str:
        mine = self.bench.accounts()[ACCOUNT]["releases"]
        if any(r["released"] for r in mine):
            raise Trouble(f"lost: paid for, and {self._missing()} is missing: {self.told[-2][-300:]}")
        if any(r["state"] in ("reserved", "started") for r in mine):
            raise Trouble(f"refused while a release is left open: {self.told[-1][-300:]}")
        if not any(SAID_BEFORE.search(text) for text in self.told[:-1]):
            raise Trouble(f"refused, which nothing said before: {self.told[-1][-300:]}")
        return "refused"


def _told_again(text: str, before: str) -> bool:
    """Whether two texts are the same but for ids and figures."""
    one, other = (re.sub(r"\d+(?:\.\d+)?", "*", without_ids(t)) for t in (text, before))
    return one == other


def _offers(text: str) -> list[str]:
    """Return what a text advises, in its order."""
    found = [(m.start(), m[0]) for m in ENDING.finditer(text)]
    found += [(m.start(), "resume") for m in RESUMING.finditer(text)]
    found += [(m.start(), "again") for m in AGAIN.finditer(text)]
    return list(dict.fromkeys(act for _, act in sorted(found)))


def covering(found: list[Scene]) -> list[Scene]:
    """Return scenes after each commit, and after the first rename and the first lock in each folder."""
    met: set[str] = set()
    chosen = []
    for scene in found:
        points = [p.removesuffix(" after") for p in scene.points if p.endswith(" after")]
        kinds = {p if p.startswith("commit") else re.sub(r"[^/ ]+(?: \(deleted\))? #\d+$", "", p) for p in points}
        if kinds - met:
            met |= kinds
            chosen.append(scene)
    return chosen


def shape(bench: Bench) -> tuple[set[str], dict[str, list[str]]]:
    """Return which files there are outside Dagster's own, ids left out, and the states of each account's releases."""
    places = (bench.folder, bench.folder / "home", *(bench.folder / "home").rglob("store/**"))
    found = [without_ids(str(p.relative_to(bench.folder))) for place in places for p in place.glob("*") if p.is_file()]
    names = {re.sub(r"^(.*/)?\.(.*)\.\w{8}(\.\w+)?$", r"\1.\2.*\3", name) for name in found}  # half-written ones
    return names, {name: [r["state"] for r in a["releases"]] for name, a in bench.accounts().items()}


def table(rows: list[tuple[Scene, str]]) -> str:
    """Return the scenes that did not end well, one a line."""
    return "\n".join(f"{scene.number:3} {scene.points[0]} … {scene.points[-1]}: {trouble}" for scene, trouble in rows)


def check(bench: Bench, scene: Scene, *, other: bool) -> str:
    """Put a scene back and let a person go on, with the other table first; return how it ended, or what went wrong."""
    bench.put_back(scene.where)
    try:
        if other:
            other_goes_on(bench)
        return Person(bench).go_on()
    except Trouble as trouble:
        return f"TROUBLE {trouble}"


def begin_other(bench: Bench) -> None:
    """Leave the other table a run that was killed long before, when its rows were drawn."""
    done = bench.synthesize(account=OTHER, kill=f"rename home/store/releasable/{OTHER}/synthetic.parquet #1 after")
    assert done.code == -9, done.text


def other_goes_on(bench: Bench) -> None:
    """Let the other table be checked and published; nothing of a dead run may hold it up.

    Raises:
        Trouble: if it is not.
    """
    done = bench.synthesize("--resume", account=OTHER)
    if done.code is None:
        raise Trouble(f"another table's run hangs; it printed: {done.text[-300:]}")
    if done.code != 0 or not (bench.folder / f"{OTHER}.parquet").exists():
        raise Trouble(f"another table's run: exit code {done.code}: {done.text[-300:]}")

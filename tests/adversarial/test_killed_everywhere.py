"""A release that is killed at any durable point ends: its rows are released with their card, or what it held is given back.

The points are met, not listed (`killing`); what a person does next is what is printed (`aftermath`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversarial.aftermath import (
    ACCOUNT,
    OTHER,
    Bench,
    Past,
    Person,
    Scene,
    Trouble,
    check,
    covering,
    other_goes_on,
    past,
    shape,
    table,
)
from tests.adversarial.killing import Runner
from tests.unit.ledger.stores import new_store

PUBLISHING = f"rename {ACCOUNT}.parquet #1 before"
"""Where the checked table is about to replace the one that analysts read."""

REAL = ("commit started #1 after", f"mkdir home/store/restricted/{ACCOUNT} #1 after", PUBLISHING)
"""Points at which a process is really killed, to see that a copy taken there is what a kill leaves."""

COMMITS = ("commit reserved #1 before", "commit settled #1 after")
"""Commits of a ledger on a server, in the ordinary suite."""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A warm process."""
    folder = tmp_path_factory.mktemp("killed") / "work"
    folder.mkdir()
    started = Runner(folder)
    yield started
    started.close()


@pytest.fixture(scope="module")
def plan(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Past:
    """What a kill leaves at each point of a release for which its account was opened."""
    return past(Bench(runner, "plan"), tmp_path_factory.mktemp("plan"))


@pytest.fixture(scope="module")
def filtered(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Past:
    """What a kill leaves at each point of a release whose account can pay for two."""
    return past(Bench(runner, "filter"), tmp_path_factory.mktemp("filter"))


def after_kills(bench: Bench, chosen: list[Scene], *, others: bool) -> None:
    """Let a person go on after each, and fail with all that went wrong."""
    wrong = [(s, end) for s in chosen if (end := check(bench, s, other=others or _publishes(s))).startswith("TROUBLE")]
    assert not wrong, f"{len(wrong)} of {len(chosen)} states after a kill:\n{table(wrong)}"


def _publishes(scene: Scene) -> bool:
    """Whether another table's run might be held up by what a dead run has of the place where tables are published."""
    return any(re.match(rf"(?:un)?lock (?!home/ledger)|\w+_slot|rename {ACCOUNT}\.parquet", p) for p in scene.points)


def test_a_release_comes_to_commits_renames_folders_and_locks(plan):
    points = {p.split()[0] for s in plan.scenes for p in s.points}
    assert {"commit", "rename", "mkdir", "lock", "unlock"} <= points
    commits = {p.split()[1] for s in plan.scenes for p in s.points if p.startswith("commit")}
    assert {"opened", "reserved", "source", "started", "marked", "settled"} <= commits


@pytest.mark.slow
def test_a_release_killed_at_each_kind_of_point_is_published_or_given_back(runner, plan):
    after_kills(Bench(runner, "plan"), covering(plan.scenes), others=False)


@pytest.mark.slow
def test_a_release_that_could_be_paid_twice_is_paid_twice_only_if_nothing_of_the_first_is_kept(runner, filtered):
    begun = [s for s in filtered.scenes if any(re.match("commit (?:started #3|settled) .*after", p) for p in s.points)]
    assert begun
    after_kills(Bench(runner, "filter"), begun, others=False)


@pytest.mark.nightly
def test_a_release_killed_at_any_point_is_published_or_given_back_and_holds_nobody_up(runner, plan):
    after_kills(Bench(runner, "plan"), plan.scenes, others=True)


@pytest.mark.nightly
def test_a_release_that_could_be_paid_twice_killed_at_any_point_holds_nobody_up(runner, filtered):
    after_kills(Bench(runner, "filter"), filtered.scenes, others=True)


@pytest.mark.slow
@pytest.mark.parametrize("point", REAL)
def test_a_copy_taken_at_a_point_is_what_a_kill_there_leaves(runner, plan, point):
    (scene,) = (s for s in plan.scenes if point in s.points)
    bench = Bench(runner, "plan")
    bench.put_back(scene.where)
    copied = shape(bench)
    bench.put_back(plan.base)
    assert bench.synthesize(kill=point).code == -9
    assert shape(bench) == copied


@pytest.mark.slow
def test_a_run_killed_while_it_publishes_holds_no_other_table_up(runner):
    bench = Bench(runner, "plan")
    bench.prepare()
    assert bench.synthesize(kill=PUBLISHING).code == -9
    done = bench.synthesize(account=OTHER, limit=120)
    assert done.code == 0, f"exit code {done.code}; None is a hang: {done.text}"
    assert (bench.folder / f"{OTHER}.parquet").exists()
    assert Person(bench).go_on() == "released"


def killed_at(bench: Bench, point: str) -> bool:
    """Kill a release at a point; say whether it came there: the noisy count decides how many chunks a training has."""
    done = bench.synthesize(kill=point)
    assert done.code == -9 or re.match(r"(?:un)?lock|\w+_slot|commit marked|rename .*checkpoint", point), (
        point,
        done.text,
    )
    return done.code == -9


def on_a_server(runner: Runner, folder: Path, points: list[str]) -> int:
    """Kill a release whose ledger is on a server at each of these points, and let a person go on; say how many it met."""
    wrong, met = [], 0
    for number, point in enumerate(points):
        with new_store("postgresql", folder) as url:
            bench = Bench(runner, ("plan", "filter")[number % 2], {"DP_SYNTH_LEDGER": url})
            bench.prepare()
            bench.open_account()
            if not killed_at(bench, point):
                continue
            met += 1
            here = folder / str(number)
            bench.keep(here)
            end = check(bench, Scene(number, here, [point]), other=False)
        if end.startswith("TROUBLE"):
            wrong.append((Scene(number, here, [point]), end))
    assert not wrong, table(wrong)
    return met


@pytest.mark.slow
def test_a_ledger_on_a_server_is_as_whole_after_a_kill(runner, tmp_path):
    assert on_a_server(runner, tmp_path, list(COMMITS)) == len(COMMITS)


@pytest.mark.nightly
def test_a_ledger_on_a_server_is_as_whole_after_a_kill_at_any_point(runner, filtered, tmp_path):
    met = [p for s in filtered.scenes for p in s.points if "commit opened" not in p and not re.search("home/ledger", p)]
    assert {p.split()[0] for p in met} >= {"commit", "rename", "mkdir", "lock", "unlock"}
    assert on_a_server(runner, tmp_path, met) > 0.8 * len(met)


@pytest.mark.nightly
def test_each_point_is_met_again_by_a_run_that_is_killed_there(runner, plan):
    """Really killed at each kind of point, rather than copied while it stood still."""
    bench, wrong = Bench(runner, "plan"), []
    for scene in covering(plan.scenes):
        bench.put_back(plan.base)
        if not killed_at(bench, scene.points[-1]):
            continue
        try:
            other_goes_on(bench)
            Person(bench).go_on()
        except Trouble as trouble:
            wrong.append((scene, str(trouble)))
    assert not wrong, table(wrong)

"""What a release promises is what all that it is a function of promises together, each entry once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Entry, Ledger, Release
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Event, SubsampledGaussian, Threshold
from tests.unit.ledger.stores import ask, sealed

COUNT = (DiscreteLaplace(100.0),)
PROFILE = (DiscreteGaussian(60.0, 1, 12), Threshold(1e-9))
TRAINING = (SubsampledGaussian(4.0, 0.02, 500),)
WORD = {"why": "the worker died", "who": "A. Officer"}


def ran(ledger: Ledger, key: str, what: dict[str, tuple[Event, ...]], upon: list[Entry] | None = None) -> Release:
    """A settled release that ran `what`, every mechanism of it upon some entries."""
    release = ask(ledger, "f", key, epsilon=1.0, own_delta=2e-9)
    for mechanism, events in what.items():
        ledger.start(release.id, mechanism, events, upon=[e.id for e in upon or ()])
    return ledger.settle(release.id)


def entries(ledger: Ledger, release: Release, *mechanisms: str) -> list[Entry]:
    return [e for e in ledger.entries(release_id=release.id) if not mechanisms or e.mechanism in mechanisms]


WHOLE = {"row count": COUNT, "profile": PROFILE, "training": TRAINING}


def test_a_release_that_builds_upon_nothing_promises_what_it_added(ledger: Ledger) -> None:
    release = ran(ledger, "first", WHOLE)
    lineage = ledger.lineage(release.id)
    assert (lineage.recorded, lineage.earlier) == (True, ())
    assert (lineage.epsilon, lineage.delta) == (release.final_epsilon, release.final_delta)


def test_a_reused_profile_counts_beside_what_the_release_added(ledger: Ledger) -> None:
    first = ran(ledger, "first", WHOLE)
    profile = entries(ledger, first, "row count", "profile")
    second = ran(ledger, "second", {"training": TRAINING}, profile)
    lineage = ledger.lineage(second.id)
    assert list(lineage.earlier) == profile
    together = accountant.epsilon([*TRAINING, *COUNT, *PROFILE], 1e-6)
    assert lineage.epsilon == together > 1.1 * (second.final_epsilon or 0)
    assert ledger.verify().entries == 4


def test_warm_starts_count_all_that_they_began_at_however_far_back_and_once(ledger: Ledger) -> None:
    first = ran(ledger, "first", WHOLE)
    profile = entries(ledger, first, "row count", "profile")
    second = ran(ledger, "second", {"training": TRAINING}, profile + entries(ledger, first))
    third = ran(ledger, "third", {"training": TRAINING}, profile + entries(ledger, second))
    lineage = ledger.lineage(third.id)
    assert [e.release_id for e in lineage.earlier] == [first.id] * 3 + [second.id]
    assert lineage.epsilon == pytest.approx(
        accountant.epsilon([*COUNT, *PROFILE, TRAINING[0].with_steps(1500)], 1e-6), rel=1e-4
    )
    assert ledger.lineage(first.id).epsilon == first.final_epsilon, "what builds upon a release does not change it"


def test_steps_that_an_earlier_training_left_unrun_count_as_planned(ledger: Ledger) -> None:
    first = ask(ledger, "f", "first", epsilon=1.0)
    entry = ledger.start(first.id, "training", TRAINING)
    ledger.mark(entry.id, 100)
    cut = ledger.settle_at_mark(entry.id, **WORD)
    ledger.settle(first.id)
    second = ran(ledger, "second", {"training": TRAINING}, [cut])
    assert sum(e.size for e in ledger.lineage(second.id).events) == 1000


def test_entries_that_nobody_has_or_of_another_unit_are_no_lineage(ledger: Ledger) -> None:
    ledger.open_account("persons", epsilon=3.0, delta=1e-5, unit="person")
    other = ask(ledger, "persons", "other", unit="person")
    foreign = ledger.start(other.id, "profile", PROFILE[:1])
    release = ask(ledger, "f", "mine")
    before = sealed(ledger)
    for ids in (["0" * 32], [foreign.id]):
        with pytest.raises(InvalidInput, match="build upon"):
            ledger.start(release.id, "training", TRAINING, upon=ids)
    assert sealed(ledger) == before


def test_thresholds_of_many_profiles_never_leave_a_release_without_an_epsilon(ledger: Ledger) -> None:
    first = ran(ledger, "first", WHOLE)
    release = ran(ledger, "second", {"training": TRAINING}, entries(ledger, first))
    lineage = replace(ledger.lineage(release.id), release=replace(release, final_delta=1.5e-9))
    assert lineage.delta == 2e-9
    assert 0 < lineage.epsilon < 10


def test_uses_of_a_declared_plan_are_composed_as_it_was(ledger: Ledger) -> None:
    ledger.declare_plan("p", name="weekly", events=[*COUNT, *TRAINING], times=2, **WORD)
    first, second = (
        ledger.reserve("p", key=k, table="adult", run_id="r", code_version="v", plan="weekly") for k in ("1", "2")
    )
    upon: list[str] = []
    for use in (first, second):
        upon = [ledger.start(use.id, m, e, upon=upon).id for m, e in (("row count", COUNT), ("training", TRAINING))]
        ledger.settle(use.id)
    lineage = ledger.lineage(second.id)
    assert lineage.declared
    assert lineage.epsilon <= ledger.plans("p")[0].epsilon * (1 + 1e-6)

"""A queue may deliver a step twice; the ledger then charges once, and never less than what ran."""

from __future__ import annotations

import dagster as dg
import pytest

from dp_synth_pipeline.ledger import Entry, Ledger
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from tests.integration.conftest import Bench
from tests.integration.deliveries import Deliveries

BRIEF = {"method": "autoregressive", "max_epochs": 6, "hidden": 8}
"""Over twice as many steps as lie between two marks."""

CHAIN = ("ingested", "profile", "completed", "generator", "synthetic", "published")


def why(event: dg.DagsterEvent) -> str:
    """What a refused delivery was told."""
    return event.step_failure_data.user_failure_data.description


def training(bench: Bench) -> list[Entry]:
    return [e for e in bench.ledger.entries() if e.mechanism.startswith("training")]


def steps_of(entry: Entry) -> int:
    return sum(e.steps for e in entry.events if isinstance(e, SubsampledGaussian))


@pytest.fixture
def deliver(bench):
    """A run of the network alone, whose fit takes no time."""
    return Deliveries(bench, training=BRIEF)


def test_a_chain_of_which_every_step_is_delivered_twice_is_charged_once(bench, deliver):
    seconds, read = {}, None
    for link in CHAIN:
        assert deliver(link).is_step_success, link
        spent, (snapshot,) = bench.ledger.balance("people"), bench.store.glob("restricted/people/*/snapshot.parquet")
        read = read or snapshot.stat()
        seconds[link] = deliver(link)
        assert bench.ledger.balance("people") == spent
        assert snapshot.stat().st_mtime_ns == read.st_mtime_ns  # the rows were not read again
    refused = {link: why(event) for link, event in seconds.items() if event.is_step_failure}
    assert refused.keys() == {"ingested"}  # the profile is reused, what was learnt is adopted, and what follows is free
    assert "delivered twice" in refused["ingested"]
    assert [e.mechanism for e in bench.ledger.entries()] == ["row count", "profile", "training"]
    (release,) = bench.ledger.releases()
    assert (release.state, release.final_epsilon <= 4.0) == ("settled", True)
    bench.ledger.verify()


def test_marginals_that_are_delivered_twice_are_counted_once(bench):
    deliver = Deliveries(bench)
    for link in ("ingested", "profile", "completed", "marginals"):
        assert deliver(link).is_step_success
    file = next(bench.store.rglob("marginals.safetensors"))
    counted = file.read_bytes()
    assert "marginals" in why(deliver("marginals"))
    assert file.read_bytes() == counted
    assert [e.mechanism for e in bench.ledger.entries()].count("marginals") == 1


def test_a_training_that_is_delivered_again_while_it_runs_goes_on_and_the_second_delivery_is_refused(
    bench, deliver, monkeypatch
):
    mark, seconds = Ledger.mark, []

    def marked(self, entry, steps):
        mark(self, entry, steps)
        if not seconds:
            seconds.append(deliver("generator"))

    for link in CHAIN[:3]:
        deliver(link)
    monkeypatch.setattr(Ledger, "mark", marked)
    assert deliver("generator").is_step_success
    assert "delivered twice" in why(seconds[0])
    (entry,) = training(bench)
    assert entry.steps_started == steps_of(entry) > 50  # it was not ended at its first mark
    assert bench.ledger.releases()[0].state == "settled"


def test_a_second_delivery_while_the_source_is_read_neither_voids_the_release_nor_deletes_what_was_read(
    bench, deliver, monkeypatch
):
    note, seconds = Ledger.note_source, []

    def noted(self, *what):
        if not seconds:
            seconds.append(deliver("ingested"))
        return note(self, *what)

    monkeypatch.setattr(Ledger, "note_source", noted)
    assert deliver("ingested").is_step_success
    assert "delivered twice" in why(seconds[0])
    assert [r.state for r in bench.ledger.releases()] == ["reserved"]
    assert deliver("profile").is_step_success


def test_what_a_dead_attempt_began_is_taken_over_by_another_run_only_and_every_step_is_charged(
    bench, deliver, monkeypatch
):
    mark = Ledger.mark

    def dies(self, entry, steps):
        mark(self, entry, steps)
        if steps > 50:
            raise dg.DagsterExecutionInterruptedError

    for link in CHAIN[:3]:
        deliver(link)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "mark", dies)
        with pytest.raises(dg.DagsterExecutionInterruptedError):
            deliver("generator")
    (dead,) = training(bench)
    assert "re-execute" in why(deliver("generator"))
    assert training(bench) == [dead]
    assert Deliveries(bench, training=BRIEF)("generator").is_step_success
    resumed = training(bench)
    assert [e.mechanism for e in resumed] == ["training", "training, resumed at 100"]
    assert sum(map(steps_of, resumed)) == steps_of(dead)
    assert bench.ledger.releases()[0].final_epsilon <= 4.0

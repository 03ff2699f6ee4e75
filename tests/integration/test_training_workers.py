"""A training that several processes share is the same mechanism as with one: one event, one charge, within the release."""

from dp_synth_pipeline.model.dpsgd import distributed
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from tests.integration.deliveries import Deliveries

BRIEF = {"method": "autoregressive", "max_epochs": 1, "hidden": 8}


def test_two_processes_train_one_release_and_the_ledger_has_one_event_that_fits_it(bench, monkeypatch):
    teams = []
    team = distributed.team

    def noted(workers, *what, **how):
        teams.append(workers)
        return team(workers, *what, **how)

    monkeypatch.setattr(distributed, "team", noted)
    deliver = Deliveries(bench, training=BRIEF, population=600, compute={"training": {"workers": 2}})
    deliver.well("ingested", "profile", "completed", "generator")
    assert teams == [2]
    (trained,) = (e for e in bench.ledger.entries() if e.mechanism == "training")
    (event,) = trained.events
    assert isinstance(event, SubsampledGaussian)  # as by one process: the rate, noise and steps of the whole team
    assert event.sample_rate * 600 == 32
    assert event.steps == trained.steps_started == 19
    (release,) = bench.ledger.releases()
    assert (release.state, release.final_epsilon <= 4.0) == ("settled", True)
    bench.ledger.verify()

"""A training that is killed stays charged in full, until a person settles it down to what had started."""

import os
import signal
import subprocess
import sys
import time

import pytest

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from tests.integration.conftest import people
from tests.light import light_but_for_costs  # noqa: F401


def wait_for_a_mark(ledger, process, seconds=90):
    """Return the training entry once some of its steps are marked as started."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        for entry in ledger.entries():
            if entry.mechanism == "training" and entry.steps_started:
                return entry
        time.sleep(0.2)  # each look costs as much as the training that it waits for
    raise AssertionError("training never marked a step")


@pytest.fixture
def killed(tmp_path):
    """A ledger whose only release was killed (SIGKILL) while it trained."""
    people(4000).drop(columns="person").to_parquet(tmp_path / "people.parquet")
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("people", epsilon=10.0, delta=1e-5)
    command = [sys.executable, "-c", "from dp_synth_pipeline.cli import main; main()", "synthesize"]
    options = ["people.parquet", "--out", "o.parquet", "--epsilon", "2", "--purpose", "machine_learning"]
    environment = {**os.environ, "DP_SYNTH_HOME": str(tmp_path)}
    environment.pop("DAGSTER_HOME", None)
    process = subprocess.Popen([*command, *options], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        entry = wait_for_a_mark(ledger, process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return ledger, ledger.entries(release_id=entry.release_id)[-1]


def test_a_killed_training_is_charged_until_a_person_settles_it_at_its_mark(killed):
    ledger, entry = killed
    before = ledger.balance("people")
    (release,) = ledger.releases("people")
    assert release.state == "started"
    assert before.epsilon_spent > 0
    planned = sum(e.steps for e in entry.events if isinstance(e, SubsampledGaussian))
    assert 0 < entry.steps_started < planned

    settled = ledger.settle_at_mark(entry.id, why="the machine died", who="test")
    assert settled.steps_paid == entry.steps_started
    done = ledger.settle(release.id)
    assert 0 < done.final_epsilon < 2
    assert ledger.balance("people").epsilon_left > before.epsilon_left
    ledger.verify()

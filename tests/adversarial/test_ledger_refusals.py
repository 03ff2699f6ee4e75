"""A request over budget consumes nothing, poisons nothing and writes nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy.events import Gaussian
from tests.unit.ledger.stores import SMALL, ask, sealed

pytest_plugins = ("tests.unit.ledger.stores",)


@pytest.mark.parametrize("account", ["f", "p"])
def test_a_refused_release_changes_nothing_and_a_smaller_one_still_fits(ledger: Ledger, account: str) -> None:
    ask(ledger, account, "k", epsilon=2.5)
    before, length = sealed(ledger), len(ledger.history())
    for number in range(3):
        with pytest.raises(BudgetExceeded):
            ask(ledger, account, f"over-{number}", epsilon=2.5)
        with pytest.raises(BudgetExceeded):
            ledger.preview(account, epsilon=2.5, delta=1e-6)
    assert sealed(ledger) == before
    assert len(ledger.history()) == length
    assert ask(ledger, account, "over-0", epsilon=0.5).state == "reserved"


def test_a_refused_mechanism_changes_nothing_and_a_noisier_one_still_starts(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    before = sealed(ledger)
    with pytest.raises(BudgetExceeded):
        ledger.start(release.id, "training", [Gaussian(1.0)])
    assert sealed(ledger) == before
    assert ledger.start(release.id, "training", SMALL).state == "started"


def test_a_refusal_changes_no_byte_of_the_file(tmp_path: Path) -> None:
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account("p", epsilon=1.0, delta=1e-5, rule="plan")

    def bytes_on_disk() -> dict[str, str]:
        return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in tmp_path.iterdir() if f.stat().st_size}

    before = bytes_on_disk()
    with pytest.raises(BudgetExceeded):
        ask(ledger, "p", "k", epsilon=1.0001)
    assert bytes_on_disk() == before

from __future__ import annotations

import numpy as np
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Account, Entry, Ledger, Release
from dp_synth_pipeline.ledger.entry import dump_events, load_events
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    SubsampledGaussian,
    Threshold,
)
from dp_synth_pipeline.privacy.filter import NANO
from tests.unit.ledger.stores import SMALL, ask

EVERY_KIND = (
    DiscreteLaplace(20.0),
    DiscreteGaussian(60.0, 2, 15),
    Gaussian(3.5),
    SubsampledGaussian(1.1, 0.01, 500),
    Threshold(5e-7),
)


def test_events_read_back_as_they_were_written() -> None:
    assert load_events(dump_events(EVERY_KIND)) == EVERY_KIND


def test_an_event_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(InvalidInput, match="plain, finite"):
        dump_events((SubsampledGaussian(1.0, 0.1, np.int64(3)),))  # type: ignore[arg-type]


def test_records_read_back_as_they_were_written(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    entry = ledger.start(release.id, "profile", SMALL)
    account = ledger.account("f")
    assert Account.from_record(account.to_record()) == account
    assert Release.from_record(release.to_record()) == release == ledger.releases()[0].__class__(**vars(release))
    assert Entry.from_record(entry.to_record()) == entry == ledger.entries()[0]


def test_the_rdp_limit_lies_under_what_was_reserved_by_room_for_rounding(ledger: Ledger) -> None:
    filtered, planned = ask(ledger, "f", "k"), ask(ledger, "p", "l")
    assert planned.rdp_limits == {}
    assert planned.order is None
    assert filtered.order == 10.0
    assert filtered.reserved_cost - 20 < filtered.rdp_limits[10.0] * NANO < filtered.reserved_cost


def test_an_entry_pays_for_the_steps_of_its_subsampled_events_only() -> None:
    entry = Entry("e", "r", "a", 0, "training", EVERY_KIND, 1, 1, "started", 0, None, "", None)
    assert entry.steps_paid == 500

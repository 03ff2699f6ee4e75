from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dp_synth_pipeline.ledger import Ledger, journal
from tests.unit.ledger.stores import SMALL, ask


def test_every_transition_is_one_row_that_names_the_one_before(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    ledger.start(release.id, "profile", SMALL)
    ledger.settle(release.id)
    ledger.void(ask(ledger, "p", "l").id, "not needed")
    chain = ledger.history()
    assert [r.action for r in chain] == ["opened", "opened", "reserved", "started", "settled", "reserved", "voided"]
    assert [r.previous for r in chain] == [journal.GENESIS, *(r.hash for r in chain[:-1])]
    assert ledger.head() == chain[-1].hash == journal.link(chain[-1])


def test_history_of_one_account_leaves_the_others_out(ledger: Ledger) -> None:
    ask(ledger, "f", "k")
    assert [r.action for r in ledger.history("f")] == ["opened", "reserved"]


def test_rows_say_when_in_utc_and_who(ledger: Ledger) -> None:
    row = ledger.history()[0]
    assert datetime.fromisoformat(row.at).utcoffset() == timedelta(0)
    assert row.who == ledger.account("f").who == journal.who() != ""


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError

    monkeypatch.setattr(journal.getpass, "getuser", nameless)
    assert journal.who().startswith("uid ")


def test_the_hash_covers_every_field(ledger: Ledger) -> None:
    row = ledger.history()[0]
    record = row.to_record()
    for field in record.keys() - {"hash"}:
        changed = {**record, field: 7 if field == "seq" else "changed"}
        assert journal.link(type(row)(**changed)) != row.hash, field

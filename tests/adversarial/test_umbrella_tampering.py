"""A membership, a mirror or a charge by hand that was edited: noticed by the next decision or by `verify`, and named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, journal, tables
from dp_synth_pipeline.ledger.verify import verify
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian
from tests.adversarial.test_ledger_tampering import edit, forge
from tests.unit.ledger.stores import SMALL, ask, sealed

A, R, E, P = tables.account, tables.release, tables.entry, tables.plan
STEPS = (SubsampledGaussian(20.0, 0.01, 10),)
WORD = {"why": "why", "who": "A. Officer"}
PERSON = {"unit": "patient_id"}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a ledger with an umbrella that was charged in every way there is."""
    folder = tmp_path_factory.mktemp("ledger")
    ledger = Ledger.open(str(folder / "ledger.db"))
    ledger.open_account("clinic", epsilon=5.0, delta=1e-5, unit="patient_id", umbrella=True)
    ledger.open_account("visits", epsilon=3.0, delta=1e-5, under="clinic")
    ledger.open_account("drugs", epsilon=3.0, delta=1e-5, rule="plan", under="clinic")
    ledger.open_account("apart", epsilon=3.0, delta=1e-5, unit="patient_id")
    for account in ("visits", "drugs"):
        done = ask(ledger, account, f"{account}-settled", own_delta=1e-7, **PERSON)
        ledger.start(done.id, "profile", SMALL)
        ledger.start(done.id, "training", STEPS)
        ledger.settle(done.id)
        ask(ledger, account, f"{account}-reserved", **PERSON)
        ledger.charge_by_hand(account, [Gaussian(40.0)], delta=1e-7, **WORD)
    ledger.declare_plan("drugs", name="weekly", events=STEPS, times=3, share=(1.0, 1e-6), **WORD)
    ledger.reserve("drugs", key="use", table="t", run_id="r", code_version="v", plan="weekly", **PERSON)
    ledger.charge_by_hand("clinic", [Gaussian(40.0)], **WORD)
    ledger.verify()
    ledger._store.engine.dispose()
    return folder


@pytest.fixture
def used(pristine: Path, tmp_path: Path) -> Ledger:
    """A copy of that ledger."""
    shutil.copytree(pristine, tmp_path / "copy")
    return Ledger.open(str(tmp_path / "copy" / "ledger.db"))


def mirror(key: str) -> Any:
    own = sa.select(R.c.id).where(R.c.key == key).scalar_subquery()
    return R.c.mirrors == own


EDITS = {
    "a membership given up": sa.update(A).where(A.c.name == "visits").values(under=None),
    "a membership in another": sa.update(A).where(A.c.name == "visits").values(under="apart"),
    "an account that joins": sa.update(A).where(A.c.name == "apart").values(under="clinic"),
    "an umbrella that is none": sa.update(A).where(A.c.name == "clinic").values(umbrella=False),
    "an umbrella of another unit": sa.update(A).where(A.c.name == "clinic").values(unit="doctor_id"),
    "an umbrella set back": sa.update(A).where(A.c.name == "clinic").values(cost_spent=0),
    "an umbrella's hold let go": sa.update(A).where(A.c.name == "clinic").values(cost_held=0),
    "a plan that mirrors another": sa.update(P).where(P.c.mirrors.is_not(None)).values(mirrors="f" * 32),
    "a mirror that mirrors another": sa.update(R).where(mirror("visits-reserved")).values(mirrors="f" * 32),
    "a mirror made void": sa.update(R).where(mirror("visits-reserved")).values(state="voided"),
    "a mirror made cheap": sa.update(R).where(mirror("visits-settled")).values(charged_cost=1),
    "a mirror that is gone": sa.delete(R).where(mirror("visits-reserved")),
    "a cheaper reservation in the umbrella": sa.update(R).where(R.c.key == "visits-settled").values(umbrella_cost=1),
    "a charge by hand made a release": sa.update(R).where(R.c.by_hand).values(by_hand=False),
    "a release made a charge by hand": sa.update(R).where(R.c.key == "visits-settled").values(by_hand=True),
    "a charge by hand made cheap": sa.update(R).where(R.c.by_hand).values(charged_cost=1, reserved_cost=1),
    "mirrored events with more noise": sa.update(E)
    .where(E.c.account == "clinic")
    .values(events='[{"kind": "gaussian", "noise_multiplier": 900.0, "count": 1}]'),
}
STOPS = [what for what in EDITS if "member" in what or "umbrella" in what or "joins" in what or "plan" in what]


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_by_hand_is_noticed(used: Ledger, what: str) -> None:
    edit(used, EDITS[what])
    with pytest.raises(LedgerCorrupted, match="Stop all runs"):
        used.verify()


@pytest.mark.parametrize("what", [what for what in STOPS if what != "a cheaper reservation in the umbrella"])
def test_an_edit_of_a_membership_or_an_umbrella_stops_the_next_decision_whatever_it_is(used: Ledger, what: str) -> None:
    held = next(r for r in used.releases("drugs") if r.key == "drugs-reserved")
    edit(used, EDITS[what])
    before = sealed(used)
    for decide in (
        lambda: used.start(held.id, "profile", SMALL),
        lambda: used.void(held.id, "why"),
        lambda: used.charge_by_hand("drugs", SMALL, delta=1e-7, **WORD),
        lambda: used.open_account("new", epsilon=1.0, delta=1e-6),
    ):
        with pytest.raises(LedgerCorrupted):
            decide()
    assert sealed(used) == before


def account(name: str, **changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda f: f["account"] and f["account"]["name"] == name and f["account"].update(changes)


def mirrored(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda f: f["release"] and f["release"]["mirrors"] and f["release"].update(changes)


FORGERIES = {
    "a membership given up": account("visits", under=None),
    "a membership in what is no umbrella": account("visits", under="apart"),
    "a member of another unit": account("visits", unit="doctor_id"),
    "an umbrella of another unit": account("clinic", unit="doctor_id"),
    "an umbrella that is none": account("clinic", umbrella=False),
    "an umbrella smaller than its member": account("clinic", epsilon=2.0),
    "mirrors that were smaller releases": mirrored(epsilon=0.1),
    "mirrors of another table": mirrored(table="another"),
    "mirrors for another purpose": mirrored(purpose="another"),
    "mirrors made releases of the umbrella itself": mirrored(mirrors=None),
    "charges by hand made cheap": lambda f: (
        f["release"] and f["release"]["by_hand"] and f["release"].update(charged_cost=1)
    ),
    "a charge by hand without a name": lambda f: f["release"] and f["release"]["by_hand"] and f["note"].update(who=""),
    "releases made charges by hand": lambda f: f["release"] and f["release"].update(by_hand=True),
    "mirrored entries with more noise": lambda f: (
        f["release"]
        and f["release"]["mirrors"]
        and [e.update(events=e["events"].replace("20.0", "40.0"), cost=1) for e in f["entries"]]
    ),
    "a plan that costs the umbrella less": lambda f: (
        f.get("plan") and f["plan"]["mirrors"] and f["plan"].update(cost=1)
    ),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_chain_that_does_not_charge_the_umbrella_what_its_members_released_is_noticed(
    used: Ledger, what: str
) -> None:
    forge(used, FORGERIES[what])
    with used._store.read() as conn, pytest.raises(LedgerCorrupted, match="the ledger does not add up"):
        verify(conn)


def test_a_chain_forged_without_the_umbrellas_rows_is_noticed(used: Ledger) -> None:
    """Whoever drops all that an umbrella was charged, in journal, tables and balance, leaves members without mirrors."""
    kept = [r for r in used.history() if not (r.account == "clinic" and r.facts["release"])]
    previous, chain = journal.GENESIS, []
    for seq, row in enumerate(kept, start=1):
        draft = type(row)(**{**row.to_record(), "seq": seq, "previous": previous})
        previous = journal.link(draft)
        chain.append({**draft.to_record(), "hash": previous})
    plan = used.plans("clinic")[0]
    with used._store.locked() as conn:
        conn.execute(sa.delete(tables.journal))
        conn.execute(sa.insert(tables.journal), chain)
        conn.execute(sa.update(tables.store).values(head=previous, length=len(chain)))
        conn.execute(sa.delete(E).where(E.c.account == "clinic"))
        conn.execute(sa.delete(R).where(R.c.account == "clinic"))
        balance = {"cost_spent": plan.cost, "cost_held": 0, "delta_spent": plan.cost_delta, "delta_held": 0}
        conn.execute(sa.update(A).where(A.c.name == "clinic").values(balance))
        conn.execute(sa.update(P).where(P.c.id == plan.id).values(used=0))
    with used._store.read() as conn, pytest.raises(LedgerCorrupted, match="charged to its umbrella: clinic"):
        verify(conn)

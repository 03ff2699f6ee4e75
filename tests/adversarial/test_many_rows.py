"""A person with a thousand rows, and a person in many partitions: still one privacy unit, and paid for as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.batches import UnitRows
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.tabular.sources.ingestion import UNIT, Snapshot
from tests.adversarial.distinguish import Claim, Distinguished, check
from tests.unit.tabular.snapshots import profiles, take

PEOPLE, MOST, FLOOD = 30, 4, 1000
RUNS = 800
WHO = PrivacyUnit("who", MOST)


def table(flooded: bool) -> pa.Table:
    """Thirty people with two rows each; the flood is one more, whose thousand rows are all alike."""
    who = [i // 2 for i in range(2 * PEOPLE)] + [99] * FLOOD * flooded
    return pa.table(
        {
            "who": who,
            "place": ["Ulm", "Bonn"] * PEOPLE + ["canary"] * FLOOD * flooded,
            "age": [32 + i % 32 for i in range(2 * PEOPLE)] + [200] * FLOOD * flooded,
        }
    )


def pair(folder: Path) -> list[Snapshot]:
    bounds = {"age": {"lower": 0, "upper": 255}}
    return [take(table(f), folder / str(f), bounds, unit=WHO) for f in (False, True)]


def seen(found: TableProfile) -> list[float]:
    place, age = found["place"], found["age"]
    named = dict(zip(place.values, place.weights, strict=True))
    return [
        float(found.population),
        float(found.rows),
        *(named.get(k, -1.0) for k in ("Ulm", "Bonn", "canary")),
        place.other,
        age.upper or 0.0,
        age.mean or 0.0,
        float(200.0 in age.values),
    ]


def attack(folder: Path, runs: int = RUNS) -> None:
    plan = ProfilePlan(0.1, 5.0, 1e-4, WHO)
    taken = pair(folder)
    first, second = (np.array([seen(p) for p in profiles(s, plan, runs)]) for s in taken)
    check(first, second, Claim.of(plan.count_events() + plan.histogram_events(taken[0].schema)))


def test_a_person_with_a_thousand_rows_is_bounded_to_a_few(tmp_path: Path) -> None:
    without, flooded = (pq.read_table(s.path).column(UNIT).to_numpy() for s in pair(tmp_path))
    assert np.bincount(flooded).max() == MOST
    assert len(flooded) == len(without) + MOST


def test_which_of_the_thousand_rows_stay_is_drawn_anew_each_time(tmp_path: Path) -> None:
    rows = pa.table({"who": [1] * FLOOD + [2], "x": [*range(FLOOD), 0]})
    kept = [tuple(sorted(pq.read_table(take(rows, tmp_path / str(i), unit=WHO).path)["x"].to_pylist())) for i in (0, 1)]
    assert kept[0] != kept[1]  # alike with a probability below 1e-10


def test_the_profile_tells_no_more_of_a_person_with_a_thousand_rows_than_its_events_cost(tmp_path: Path) -> None:
    attack(tmp_path)


def test_a_profile_is_caught_that_does_not_bound_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ingestion.bound_rows
    monkeypatch.setattr(ingestion, "bound_rows", lambda *args, max_rows, **rest: honest(*args, max_rows=10**6, **rest))
    with pytest.raises(Distinguished):
        attack(tmp_path)


@pytest.mark.nightly
def test_a_profile_is_caught_whose_noise_is_for_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = mechanisms.noisy_histograms
    monkeypatch.setattr(
        mechanisms,
        "noisy_histograms",
        lambda h, *, scale, sensitivity, odometer: honest(h, scale=scale / MOST, sensitivity=1, odometer=odometer),
    )
    with pytest.raises(Distinguished):  # missed with a probability of 1e-10; with 800 runs, of 1e-4
        attack(tmp_path, 1200)


# Training on units is put to the test in test_distinguish_training; here, its clipped sum is checked to the digit.

CARDINALITIES = (3, 5, 2, 4)
C = 0.3


def ragged(people: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes and unit numbers of people with one to four rows."""
    rng = np.random.default_rng()
    units = np.arange(people).repeat(rng.integers(1, MOST + 1, people))
    return np.stack([rng.integers(0, c, len(units)) for c in CARDINALITIES], 1).astype(np.int16), units


def network() -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(CARDINALITIES, GeneratorSpec(hidden=5, embedding=3))
    with torch.no_grad():
        for block in made.blocks:
            block.heads.weight.normal_()
            block.heads.bias.normal_()
    return made


def of_units(net: AutoregressiveNetwork, codes: np.ndarray, units: np.ndarray, chosen: np.ndarray) -> torch.Tensor:
    """The definition: for each unit its gradient over all of its rows, clipped; then the sum."""
    total = torch.zeros(sum(p.numel() for p in net.parameters()), dtype=torch.float64)
    for unit in chosen:
        rows = torch.from_numpy(codes[units == unit].astype(np.int64))
        grads = torch.autograd.grad(net.losses(rows).sum(), list(net.parameters()))
        flat = torch.cat([g.flatten() for g in grads]).double()
        total += flat * min(1.0, C / float(flat.norm()))
    return total


def of_training(net: AutoregressiveNetwork, codes: np.ndarray, units: np.ndarray, chosen: np.ndarray) -> torch.Tensor:
    """What training computes: rows of the units drawn, padded, clipped in one pass."""
    clipping = OnePassClipping(net, C)
    for batch, present in UnitRows(codes, units).take(chosen):
        assert present is not None
        clipping.backward((net.losses(batch) * present).sum(1))
    return clipping.lattice.values(clipping.take()).double()


@pytest.mark.parametrize("trial", range(5))
def test_the_clipped_sum_of_a_batch_of_units_is_that_of_a_loop_over_them(trial: int) -> None:
    codes, units = ragged(40)
    chosen = np.flatnonzero(np.random.default_rng().random(40) < 0.5)
    net = network()
    expected = of_units(net, codes, units, chosen)
    found = of_training(net, codes, units, chosen)
    assert float((found - expected).norm()) <= 1e-5 * max(float(expected.norm()), C)


def test_clipping_rows_instead_of_units_would_be_caught() -> None:
    codes, units = ragged(40)
    net, rows = network(), np.arange(len(codes))
    assert len(rows) > 40
    by_unit = of_units(net, codes, units, np.arange(40))
    by_row = of_training(net, codes, rows, rows)
    assert float((by_row - by_unit).norm()) > 0.05 * float(by_unit.norm())


# A person in many partitions.

MONTHS = ["2026-01", "2026-02", "2026-03"]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(f"sqlite:///{tmp_path}/ledger.db")


def reserve(ledger: Ledger, month: str, **more: list[str]) -> str:
    asked = {"key": month, "epsilon": 0.4, "delta": 1e-6, "own_delta": 0.0, "unit": "who", "max_rows": MOST}
    release = ledger.reserve("visits", **asked, table="visits", run_id=month, code_version="v1", **more)  # type: ignore[arg-type]
    ledger.start(release.id, "training", [Gaussian(12.0)])
    ledger.settle(release.id)
    return release.id


def test_a_person_in_many_partitions_is_paid_for_in_each_by_the_account_itself(ledger: Ledger) -> None:
    # The same people come back every month, so nobody can vouch that a unit lives in one block.
    ledger.open_account("visits", epsilon=1.0, delta=1e-5, rule="plan", unit="who", max_rows=MOST)
    spent = [0.0]
    for month in MONTHS[:2]:
        reserve(ledger, month)
        spent.append(ledger.balance("visits").cost_spent)
    assert spent[2] == pytest.approx(2 * spent[1], rel=0.35)
    assert spent[2] > spent[1] > 0
    with pytest.raises(BudgetExceeded):
        _ = [reserve(ledger, f"another-{i}") for i in range(20)]


def test_partitions_are_no_blocks_unless_a_person_vouches_for_them(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="every privacy unit lives in one"):
        ledger.open_account("visits", epsilon=1.0, delta=1e-5, unit="who", max_rows=MOST, blocks=MONTHS)
    ledger.open_account("visits", epsilon=1.0, delta=1e-5, rule="plan", unit="who", max_rows=MOST)
    with pytest.raises(InvalidInput, match="no block"):
        reserve(ledger, MONTHS[0], blocks=MONTHS[:1])
    assert ledger.balance("visits").cost_spent == 0


def test_a_release_over_all_partitions_is_charged_to_the_account_and_so_to_every_block(ledger: Ledger) -> None:
    ledger.open_account(
        "visits", epsilon=1.0, delta=1e-5, rule="plan", unit="who", max_rows=MOST, blocks=MONTHS, unit_in_one_block=True
    )
    fresh = ledger.balance("visits", MONTHS[0]).cost_left
    reserve(ledger, "everything")
    left = {ledger.balance("visits", month).cost_left for month in MONTHS} | {ledger.balance("visits").cost_left}
    assert len(left) == 1
    assert left.pop() < fresh
    ledger.verify()

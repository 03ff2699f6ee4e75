"""Private queries of the loss: their sensitivity, their number, and what a stop saves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, loss_queries, training
from dp_synth_pipeline.model.dpsgd.batches import UnitRows
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.loss_queries import LossQueries, clipped_losses, loss_bound
from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan, TrainingPlan, plan_loss_queries
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
from dp_synth_pipeline.privacy.accountant import epsilon
from dp_synth_pipeline.privacy.events import Gaussian

CARDS = (5, 4, 6)
SPEC = GeneratorSpec(hidden=6, embedding=3)


def codes(rows: int) -> np.ndarray:
    rng = np.random.default_rng()
    return np.stack([rng.integers(0, c, rows) for c in CARDS], 1).astype(np.int16)


def network(size: float) -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(CARDS, SPEC)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(std=size) if math.isfinite(size) else p.fill_(size)
    return made


def losses_of(net: AutoregressiveNetwork, rows: UnitRows, chosen: np.ndarray) -> float:
    lattice = Lattice(loss_bound(net))
    return int(clipped_losses(net, rows, chosen, lattice, {})) * lattice.spacing


@pytest.mark.parametrize("size", [0.5, 50.0, 1e6, math.nan, math.inf])
@pytest.mark.parametrize("rows", [1, 2, 9])
def test_one_unit_moves_the_sum_by_the_bound_at_most_whatever_its_rows_and_the_weights(size: float, rows: int) -> None:
    net, held = network(size), codes(20)
    units = np.arange(20) // 2
    before = float(losses_of(net, UnitRows(held, units), np.arange(10)))
    more = UnitRows(np.concatenate([held, codes(rows)]), np.append(units, np.full(rows, 10)))
    after = float(losses_of(net, more, np.arange(11)))
    assert 0 <= after - before <= loss_bound(net) * (1 + 1e-9)
    if (size == 1e6 and rows == 9) or not math.isfinite(size):  # fewer rows may by chance be those the network expects
        assert after - before > 0.3 * loss_bound(net), "what has no finite loss counts as the bound"


def test_the_bound_depends_on_cardinalities_alone() -> None:
    assert loss_bound(network(1.0)) == pytest.approx(2 * math.log(5 * 4 * 6)) == loss_bound(network(9.0))


def test_a_longer_unit_changes_neither_the_noise_nor_anybody_elses_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    net, held = network(0.5), codes(20)
    deviations: list[float] = []
    monkeypatch.setattr(LossQueries, "_falls", lambda self, deviation: deviations.append(deviation) or True)
    for long in (1, 400):
        rows = UnitRows(np.concatenate([held, codes(long)]), np.append(np.arange(20), np.full(long, 20)))
        LossQueries(LossQueriesPlan(1, 1.0, 1.0), 21).query(net, rows, {})
    assert deviations[0] == deviations[1]


def test_losses_do_not_depend_on_how_units_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    net, rows = network(0.5), UnitRows(codes(50), None)
    whole = float(losses_of(net, rows, np.arange(50)))
    losses = net.losses(torch.from_numpy(rows.codes.astype(np.int64)))
    assert whole == pytest.approx(float(losses.clamp(max=loss_bound(net)).sum()), rel=1e-5)
    monkeypatch.setattr(loss_queries, "BATCH", 7)
    assert float(losses_of(net, rows, np.arange(50))) == pytest.approx(whole, rel=1e-5)


def test_an_answer_has_the_noise_that_was_planned() -> None:
    net, rows = network(0.1), UnitRows(codes(30), None)
    exact = float(losses_of(net, rows, np.arange(30))) / 30
    watched = LossQueries(LossQueriesPlan(2000, 1.0, 4.0), 30)
    for _ in range(2000):
        watched.query(net, rows, {})
    errors = (np.array(watched.answers) - exact) * 30 / (4.0 * loss_bound(net))
    assert errors.std() == pytest.approx(1, rel=6.5 / math.sqrt(4000))
    assert abs(errors.mean()) < 6.5 / math.sqrt(2000)


def test_no_query_is_made_that_was_not_planned() -> None:
    net, rows, watched = network(0.1), UnitRows(codes(5), None), LossQueries(LossQueriesPlan(2, 1.0, 1.0), 5)
    for _ in range(2):
        watched.query(net, rows, {})
    with pytest.raises(IndexError, match="was not charged"):
        watched.query(net, rows, {})


def test_training_goes_on_while_the_loss_falls_by_more_than_its_noise() -> None:
    watched = LossQueries(LossQueriesPlan(9, 1.0, 1.0), 5)
    for seen, expected in (([9.0], True), ([9.0, 9.0, 9.0], True), ([9.0, 8.0, 7.0, 6.0], True)):
        watched.answers = list(seen)
        assert watched._falls(0.5) is expected
    watched.answers = [6.0, 6.0, 5.9, 5.9]
    assert watched._falls(0.5) is False


def run(monkeypatch: pytest.MonkeyPatch, steps: int, count: int, falls: bool) -> tuple[training.Trained, list[str]]:
    said: list[str] = []
    honest_query, honest_step = LossQueries.query, descent.Descent._step

    def query(self: LossQueries, *rest: object) -> bool:
        said.append("query")
        honest_query(self, *rest)  # type: ignore[arg-type]
        return falls

    def step(self: descent.Descent, number: int) -> None:
        said.append("step")
        honest_step(self, number)

    monkeypatch.setattr(LossQueries, "query", query)
    monkeypatch.setattr(descent.Descent, "_step", step)
    trained = training.train(
        AutoregressiveNetwork(CARDS, SPEC),
        Training(codes(40), TrainingPlan(0.1, steps, 4.0, 1.0), SPEC, queries=LossQueriesPlan(count, 0.5, 2.0)),
        Hooks(mark=lambda n: said.append(f"mark {n}"), mark_query=lambda n: said.append(f"mark query {n}")),
    )
    return trained, said


@pytest.mark.parametrize(("steps", "count"), [(400, 3), (120, 9), (60, 1), (30, 2), (1000, 4)])
def test_each_query_is_marked_before_it_is_made_and_there_are_never_more_than_planned(
    monkeypatch: pytest.MonkeyPatch, steps: int, count: int
) -> None:
    trained, said = run(monkeypatch, steps, count, falls=True)
    taken = [i for i, what in enumerate(said) if what == "query"]
    assert len(taken) <= count
    assert [said[i - 1] for i in taken] == [f"mark query {k + 1}" for k in range(len(taken))]
    assert said.count("step") == steps
    assert trained.stopped_at is None
    assert len(trained.looks) == len(taken), "each answer that was paid for is handed back, and no other"
    assert [look.step for look in trained.looks] == [said[:i].count("step") for i in taken]


def test_a_stop_saves_the_steps_that_were_left_and_pays_for_no_step_it_did_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained, said = run(monkeypatch, 400, 3, falls=False)
    assert trained.stopped_at == trained.event.steps == said.count("step") == 100
    assert [s for s in said if s.startswith("mark ") and "query" not in s][-1] == "mark 100"


def test_queries_cost_a_share_of_what_training_would_spend_at_most() -> None:
    spec = SPEC.with_(looks=8, look_share=0.05)
    plan = plan_loss_queries(10_000, 3.0, spec)
    assert plan is not None
    assert plan.sample_rate == 1.0
    assert epsilon([plan.event], 1e-5) == pytest.approx(epsilon([Gaussian(3.0 / 0.05**0.5)], 1e-5), rel=1e-3)
    assert plan_loss_queries(10_000, 3.0, SPEC) is None


def test_what_is_handed_back_of_the_loss_is_the_noisy_answer_and_the_deviation_of_its_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[LossQueries] = []
    monkeypatch.setattr(LossQueries, "_falls", lambda self, deviation: asked.append(self) or True)
    trained = training.train(
        AutoregressiveNetwork(CARDS, SPEC),
        Training(codes(40), TrainingPlan(0.1, 120, 4.0, 1.0), SPEC, queries=LossQueriesPlan(1, 0.5, 2.0)),
    )
    (look,) = trained.looks
    assert look.loss == asked[0].answers[0]
    assert look.deviation == pytest.approx(2.0 * loss_bound(trained.network) / (0.5 * 40))


def test_a_query_at_the_end_is_of_the_averaged_weights_that_training_ends_with_and_ends_nothing() -> None:
    held, spec = codes(4_000), GeneratorSpec(hidden=6, embedding=3, learning_rate=0.3, averaging=0.9)
    quiet = LossQueriesPlan(1, 1.0, 0.3, at_end=True)
    work = Training(held, TrainingPlan(0.1, 12, 400.0, 0.5), spec, queries=quiet)
    trained = training.train(AutoregressiveNetwork(CARDS, spec), work)
    (look,) = trained.looks
    with torch.no_grad():
        exact = float(trained.network.losses(torch.from_numpy(held.astype(np.int64))).double().mean())
    assert (look.step, trained.stopped_at) == (12, None)
    assert look.loss == pytest.approx(exact, abs=6 * look.deviation + 1e-3)  # by chance once in 5e8 runs
    assert look.deviation == pytest.approx(0.3 * loss_bound(trained.network) / 4_000, rel=0.01)

"""The same on a GPU as on a CPU: clipped sums, training, draws, fits and raking. Skipped without one."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.one_by_one import OneByOneClipping
from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan, TrainingPlan
from dp_synth_pipeline.model.dpsgd.repeatable import sizes_at_once
from dp_synth_pipeline.model.dpsgd.work import Training
from dp_synth_pipeline.model.language.note_network import NoteNetwork
from dp_synth_pipeline.model.marginals import mixture, raking
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals, all_pairs, count

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
CARDS = (40, 7, 3, 12, 2, 25)
SPEC = GeneratorSpec()


def codes(rows: int) -> np.ndarray:
    rng = np.random.default_rng()
    made = np.stack([rng.integers(0, c, rows) for c in CARDS], 1)
    made[: rows // 2, 3] = made[: rows // 2, 0] % 12
    return made.astype(np.int16)


def network(size: float = 0.3) -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(CARDS, SPEC)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(std=size)
    made.forget_unused()
    return made


@pytest.mark.parametrize("rows", [None, 3])
def test_clipped_sums_are_those_of_a_cpu(rows: int | None) -> None:
    batch = torch.from_numpy(codes(600).astype(np.int64))
    batch = batch if rows is None else batch.view(-1, rows, len(CARDS))
    sums = []
    for device in ("cpu", "cuda"):
        net = network_like(device)
        clipping = OnePassClipping(net, 1.0)
        losses = net.losses(batch.to(device))
        clipping.backward(losses if rows is None else losses.sum(1))
        sums.append(clipping.lattice.values(clipping.take()).cpu())
    assert float((sums[0] - sums[1]).norm()) < 1e-4 * float(sums[0].norm())


KEPT = network()


def network_like(device: str) -> AutoregressiveNetwork:
    return copy.deepcopy(KEPT).to(device)


def test_training_with_next_to_no_noise_ends_where_a_cpu_does() -> None:
    table, plan = codes(500), TrainingPlan(1.0, 5, 500.0, 1e-9)
    spec = SPEC.with_(optimizer="sgd", learning_rate=1.0)
    ends = []
    for device in ("cpu", "cuda"):
        found = training.train(copy.deepcopy(KEPT), Training(table, plan, spec, device=device))
        assert found.event == plan.event
        ends.append(torch.cat([p.detach().flatten() for p in found.network.parameters()]))
    start = torch.cat([p.detach().flatten() for p in KEPT.parameters()])
    assert float((ends[0] - ends[1]).norm()) < 1e-4 * float((ends[0] - start).norm())


def test_noise_on_a_gpu_has_the_planned_deviation_and_never_repeats() -> None:
    spec, plan = SPEC.with_(optimizer="sgd", learning_rate=1.0, averaging=0.0), TrainingPlan(1e-12, 1, 64.0, 2.0)
    moves = []
    for _ in range(2):
        torch.manual_seed(3)
        torch.cuda.manual_seed_all(3)
        net = copy.deepcopy(KEPT)
        net.forget_unused = lambda: None  # type: ignore[method-assign]
        start = torch.cat([p.detach().flatten().clone() for p in net.parameters()])
        end = training.train(net, Training(codes(50), plan, spec, device="cuda")).network
        moves.append((torch.cat([p.detach().flatten() for p in end.parameters()]) - start).double() / (2.0 / 64))
    n = len(moves[0])
    for move in moves:
        assert float(move.std()) == pytest.approx(1, rel=7 / (2 * n) ** 0.5)
    assert abs(float(np.corrcoef(moves[0], moves[1])[0, 1])) < 6.5 / n**0.5


def test_looks_start_and_stop_on_a_gpu() -> None:
    plan = TrainingPlan(0.2, 120, 100.0, 1.0)
    found = training.train(
        AutoregressiveNetwork(CARDS, SPEC),
        Training(codes(500), plan, SPEC, queries=LossQueriesPlan(1, 1.0, 1.0), device="cuda"),
    )
    assert found.event.steps in (50, 100, 120)
    assert next(found.network.parameters()).device.type == "cpu"


def test_draws_on_a_gpu_follow_the_network() -> None:
    layout = Layout(CARDS, tuple(all_pairs(len(CARDS))))
    shares = []
    for device in ("cpu", "cuda"):
        drawn = np.concatenate(list(Generator(network_like(device)).draw(200_000)))
        shares.append(count(drawn, layout) / len(drawn))
    assert np.abs(shares[0] - shares[1]).max() < 6.5 * (0.5 / 200_000) ** 0.5


def test_a_fit_and_raking_on_a_gpu_reach_what_a_cpu_reaches() -> None:
    table = codes(40_000)
    layout = Layout(CARDS, tuple(all_pairs(len(CARDS))))
    measured = Marginals(layout, count(table, layout).astype(float), 1.0, 40_000)
    shares = [np.bincount(c, minlength=k) / len(c) for c, k in zip(table.T, CARDS, strict=True)]
    misses, raked = [], []
    drawn = np.stack([np.random.default_rng().permutation(c) for c in table.T], 1)
    for device in ("cpu", "cuda"):
        fitted = mixture.fit(measured, shares, components=60, steps=300, device=device)
        found = count(fitted.draw(100_000).cpu().numpy(), layout) / 100_000
        misses.append(float(np.abs(found - measured.counts / 40_000).sum()) / 2 / len(layout.cliques))
        weights = np.exp(raking.rake(drawn, measured, device=device).log_weights(drawn).astype(float))
        cells = [np.bincount(layout.within(c, drawn.T), weights, p.stop - p.start) for c, p in layout.places()]
        raked.append(np.concatenate(cells) / weights.sum())
    assert misses[1] < 1.2 * misses[0] + 0.005
    moved = np.abs(raked[0] - count(drawn, layout) / len(drawn)).sum()
    assert np.abs(raked[0] - raked[1]).sum() < 0.01 * moved, "both end at the same marginals, in sums of another order"


def test_notes_are_derived_together_and_as_on_a_cpu() -> None:
    pytest.importorskip("peft", reason="needs the extra `text`")
    transformers = pytest.importorskip("transformers", reason="needs the extra `text`")
    layers = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
    config = transformers.LlamaConfig(vocab_size=2048, num_hidden_layers=2, attn_implementation="eager", **layers)
    net = NoteNetwork(transformers.LlamaForCausalLM(config), rank=4, length=48)
    for p in net.adapters:
        torch.nn.init.normal_(p, std=0.1)
    batch = torch.stack([torch.randint(c, (64,)) for c in net.cardinalities], 1)
    batch[:, 0] %= 20
    found = []
    for device in ("cpu", "cuda"):
        net.to(device)
        found.append(net.gradients(net.losses(batch.to(device))).cpu())
    assert float((found[0] - found[1]).norm()) < 1e-3 * float(found[0].norm())
    sizes = sizes_at_once(net, OneByOneClipping(net, Lattice(1.0)), batch.shape[1:])
    assert sizes[-1] >= 32, "else a GPU would take as long as a processor"

"""A language model with adapters says the loss of each row's own text, and its gradients are those that Opacus has."""

from __future__ import annotations

import pytest
import torch
from torch import nn

peft = pytest.importorskip("peft", reason="needs the extra `text`")
transformers = pytest.importorskip("transformers", reason="needs the extra `text`")

from opacus import GradSampleModule  # noqa: E402

from dp_synth_pipeline.errors import InvalidInput  # noqa: E402
from dp_synth_pipeline.model.dpsgd.lattice import Lattice  # noqa: E402
from dp_synth_pipeline.model.dpsgd.one_by_one import OneByOneClipping  # noqa: E402
from dp_synth_pipeline.model.language.note_network import NoteNetwork  # noqa: E402

VOCABULARY, LENGTH = 23, 9


def language() -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=0,
        eos_token_id=1,
    )
    return transformers.LlamaForCausalLM(config).double()


@pytest.fixture
def network() -> NoteNetwork:
    torch.manual_seed(5)  # of weights that are made up
    made = NoteNetwork(language(), rank=2, length=LENGTH).double()
    for p in made.adapters:
        nn.init.normal_(p, std=0.3)
    return made


def row(prompt: list[int], text: list[int]) -> list[int]:
    return [len(prompt), *prompt, *text, *[VOCABULARY] * (LENGTH - len(prompt) - len(text))]


CODES = torch.tensor([row([3, 4], [5, 6, 1]), row([7], [8, 9, 10, 11, 1]), row([2, 2, 2], [4, 1])])


def test_the_loss_is_the_mean_over_the_text_alone(network: NoteNetwork) -> None:
    logits = network.language(input_ids=CODES[:1, 1:6]).logits.log_softmax(-1)
    wanted = -(logits[0, 1, 5] + logits[0, 2, 6] + logits[0, 3, 1]) / 3
    torch.testing.assert_close(network.losses(CODES)[0], wanted)


def test_a_rows_loss_does_not_depend_on_the_rows_beside_it(network: NoteNetwork) -> None:
    together = network.losses(CODES)
    alone = torch.cat([network.losses(c[None]) for c in CODES])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(network.losses(CODES[None])[0], together)


def test_a_row_without_a_text_teaches_nothing(network: NoteNetwork) -> None:
    clipping = OneByOneClipping(network, Lattice(1.0))
    clipping.backward(network.losses(torch.tensor([[LENGTH, *[VOCABULARY] * LENGTH]])))
    assert not clipping.take().any()


def test_the_adapters_alone_are_trained_and_the_public_weights_stay(network: NoteNetwork) -> None:
    trained = {id(p) for p in network.parameters()}
    assert trained == {id(p) for n, p in network.language.named_parameters() if "lora" in n}
    assert len(network.names) == len(network.adapters) == 2 * 7 * 2  # A and B of seven linear maps in two layers


@pytest.mark.parametrize("bound", [0.01, 1000.0])
def test_clipped_gradients_are_those_of_opacus_hooks(network: NoteNetwork, bound: float) -> None:
    lattice = Lattice(bound)
    clipping = OneByOneClipping(network, lattice)
    for c in CODES:
        clipping.backward(network.losses(c[None]))
    found = clipping.take().double() * lattice.spacing
    hooked = GradSampleModule(network.language.train(), loss_reduction="sum", strict=False)  # it hooks nothing else
    tokens = torch.where(CODES[:, 1:] < VOCABULARY, CODES[:, 1:], 0)
    places = torch.arange(LENGTH)
    learnt = (CODES[:, 1:] < VOCABULARY) & (places >= CODES[:, :1])
    logits = hooked(input_ids=tokens).logits[:, :-1].transpose(1, 2)
    nats = nn.functional.cross_entropy(logits, tokens[:, 1:], reduction="none") * learnt[:, 1:]
    (nats.sum(1) / learnt.sum(1)).sum().backward()
    each = torch.cat([p.grad_sample.flatten(1) for p in network.adapters], 1)
    wanted = (each * (bound / each.norm(dim=1)).clamp(max=1)[:, None]).sum(0)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=3 * bound * 2.0**-19)


@pytest.mark.parametrize("rows", [1, 2])
def test_gradients_of_several_units_are_those_of_each_alone(network: NoteNetwork, rows: int) -> None:
    codes = torch.cat([CODES, CODES.flip(0)]).view(-1, rows, CODES.shape[1])
    weight = torch.rand(codes.shape[:-1], dtype=torch.float64)
    together = network.gradients((network.losses(codes) * weight).sum(1))
    alone = [network.gradients((network.losses(c[None]) * w).sum(1)) for c, w in zip(codes, weight, strict=True)]
    assert together.shape == (len(codes), sum(p.numel() for p in network.adapters))
    torch.testing.assert_close(together, torch.cat(alone))
    each = torch.autograd.grad(network.losses(codes[0]).sum(), list(network.adapters))
    by_autograd = torch.cat([g.flatten() for g in each])
    torch.testing.assert_close(network.gradients(network.losses(codes[:1]).sum(1))[0], by_autograd)


def test_what_a_unit_is_computed_in_follows_from_its_own_tokens() -> None:
    length, wide = 70, NoteNetwork(language(), rank=2, length=70)
    assert wide.widths == [16, 32, 48, 64, 70]
    batch = torch.full((4, 2, 1 + length), VOCABULARY)
    batch[..., 0] = 1
    for unit, tokens in enumerate((16, 70, 17, 3)):
        batch[unit, unit % 2, 1 : 1 + tokens] = 5
    weight = torch.arange(8.0).view(4, 2)
    pieces = list(wide.by_shape(batch, weight))
    assert [p.shape for p, _ in pieces] == [(2, 2, 17), (1, 2, 33), (1, 2, 71)]
    assert [w.tolist() for _, w in pieces] == [[[0, 1], [6, 7]], [[4, 5]], [[2, 3]]]
    whole = wide.losses(batch)
    found = torch.cat([wide.losses(p) for p, _ in pieces])[[0, 3, 2, 1]]
    torch.testing.assert_close(found, whole)
    ((nothing, _),) = wide.by_shape(batch[:0], None)
    assert nothing.shape == (0, 2, 17)


def test_a_network_of_a_model_in_memory_makes_no_other_process(network: NoteNetwork) -> None:
    with pytest.raises(InvalidInput, match="in memory"):
        network.blueprint()

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Before

SPEC = GeneratorSpec(hidden=4, embedding=2, activation="relu")
FACTS = {"release": "r-1", "event": {"kind": "subsampled_gaussian", "steps": 3}}


def network() -> AutoregressiveNetwork:
    made = AutoregressiveNetwork((3, 5, 2), SPEC)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()
    return made


def test_a_generator_comes_back_as_it_was(tmp_path: Path) -> None:
    net = network()
    loaded, facts = artifact.load(artifact.save(tmp_path / "generator", Generator(net), FACTS))
    assert facts == FACTS
    assert loaded.tilt is None
    assert not loaded.proposal.training
    codes = torch.tensor([[0, 4, 1], [2, 0, 0]])
    with torch.no_grad():
        assert torch.equal(loaded.proposal(codes), net(codes))


def test_a_network_whose_codes_move_comes_back_and_one_of_an_earlier_version_has_none_that_do(tmp_path: Path) -> None:
    told = {"moving": {1: Before(0, (2, 0, 1))}, "apart": {1: Before(0, (0, 1))}}
    net = AutoregressiveNetwork((4, 5, 2), SPEC, 1, **told)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_()
    loaded, _ = artifact.load(artifact.save(tmp_path / "moving", Generator(net), FACTS))
    codes = torch.cartesian_prod(torch.arange(4), torch.arange(5), torch.arange(2))
    with torch.no_grad():
        assert torch.equal(loaded.proposal(codes), net(codes))
    earlier, _ = artifact.load(artifact.save(tmp_path / "earlier", Generator(network()), FACTS))
    assert earlier.proposal.moving == earlier.proposal.apart == {}


def test_the_artifact_is_safetensors_and_json_and_never_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("pickle was used")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, never)
    monkeypatch.setattr(torch, "load", never)
    monkeypatch.setattr(torch, "save", never)
    folder = artifact.save(tmp_path, Generator(network()), FACTS)
    artifact.load(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["generator.json", "generator.safetensors"]
    header = (folder / "generator.safetensors").read_bytes()
    described = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])
    layers = ("causal.weight", "causal.bias", "heads.weight", "heads.bias")
    blocks = {f"blocks.{i}.{layer}" for i in range(len(network().blocks)) for layer in layers}
    assert set(described) - {"__metadata__"} == {"embed.weight", *blocks}
    described = json.loads((folder / "generator.json").read_text())
    assert set(described) == {"format", "kind", "spec", "cardinalities", "raked_to", "facts"}


@pytest.mark.parametrize("gone", ["generator.json", "generator.safetensors"])
def test_missing_files_are_told_with_the_next_step(tmp_path: Path, gone: str) -> None:
    folder = artifact.save(tmp_path, Generator(network()), FACTS)
    (folder / gone).unlink()
    with pytest.raises(InvalidInput, match=r"gone; materialize .generator. again \(a new charge\)"):
        artifact.load(folder)


@pytest.mark.parametrize("other", ['"format": 99', f'"format": {artifact.FORMAT}, "draws": "mixture"'])
def test_another_format_is_refused(tmp_path: Path, other: str) -> None:
    folder = artifact.save(tmp_path, Generator(network()), FACTS)
    text = (folder / "generator.json").read_text().replace(f'"format": {artifact.FORMAT}', other)
    (folder / "generator.json").write_text(text)
    with pytest.raises(InvalidInput, match="another version"):
        artifact.load(folder)

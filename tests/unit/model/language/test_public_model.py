"""A public model is a folder of weights that cannot hold code, and is known again by its hash."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.language.public_model import PublicModel


def folder(place: Path, **files: str) -> Path:
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / name.replace("_", ".")).write_text(text)
    return place


def test_the_hash_is_of_all_weights_and_of_how_the_model_is_built(tmp_path: Path) -> None:
    place = folder(tmp_path / "m", model_safetensors="weights", config_json="{}", README_md="read me")
    before = PublicModel.at(str(place)).sha256()
    lines = [
        f"{hashlib.sha256(t.encode()).hexdigest()}  {n}\n"
        for n, t in (("config.json", "{}"), ("model.safetensors", "weights"))
    ]
    assert before == hashlib.sha256("".join(lines).encode()).hexdigest()
    (place / "README.md").write_text("other words")
    PublicModel.at(str(place)).check(before)
    for name in ("model.safetensors", "config.json"):
        kept = (place / name).read_text()
        (place / name).write_text("other")
        with pytest.raises(InvalidInput, match=before):
            PublicModel.at(str(place)).check(before)
        (place / name).write_text(kept)


def test_a_gguf_file_is_found_by_itself_and_in_its_folder_and_has_its_own_hash(tmp_path: Path) -> None:
    place = folder(tmp_path / "m", a_gguf="weights", metadata_json="{}")
    for path in (place, place / "a.gguf"):
        found = PublicModel.at(str(path))
        assert found == PublicModel(place, "a.gguf")
        assert found.sha256() == hashlib.sha256(b"weights").hexdigest()


def test_a_cache_of_one_snapshot_is_that_snapshot_and_of_several_is_refused(tmp_path: Path) -> None:
    first = folder(tmp_path / "models--x" / "snapshots" / "a1", model_safetensors="weights")
    assert PublicModel.at(str(tmp_path / "models--x")).folder == first
    folder(tmp_path / "models--x" / "snapshots" / "b2", model_safetensors="weights")
    with pytest.raises(InvalidInput, match="2 snapshots"):
        PublicModel.at(str(tmp_path / "models--x"))


def test_weights_that_could_hold_code_are_not_read(tmp_path: Path) -> None:
    place = folder(tmp_path / "m", model_bin="pickled", config_json="{}")
    with pytest.raises(InvalidInput, match="safetensors"):
        PublicModel.at(str(place))

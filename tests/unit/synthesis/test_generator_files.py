"""What was learnt is whole or absent, and says whose it is."""

import json
import math

import pytest

from dp_synth_pipeline.model.autoregressive import initialization
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Released
from dp_synth_pipeline.privacy.audit import NAMES, Audit, Finding
from dp_synth_pipeline.synthesis import generator_files
from dp_synth_pipeline.targets import sink

SPEC = GeneratorSpec(hidden=4)


def made() -> Generator:
    return Generator(initialization.begin((2, 3), SPEC.with_(start="random"), Released(())), None)


def audit(measured: float = 1.0) -> Audit:
    return Audit(3, tuple(Finding(name, True, 1.0, measured, 0.5, 2.0, "It fits.") for name in NAMES))


def keep(folder, release: str, found: Audit | None) -> None:
    generator_files.keep(folder, made(), {"release": release, "schema": "{}"}, "{}", found)


def test_what_was_learnt_is_found_under_its_release_and_no_other(tmp_path):
    place = tmp_path / "learnt"
    assert not generator_files.found(place, "one")
    keep(place, "one", audit())
    assert generator_files.found(place, "one")
    assert not generator_files.found(place, "two")
    assert generator_files.audit(place) == audit()


def test_an_audit_without_a_finite_figure_is_read_back(tmp_path):
    keep(tmp_path / "learnt", "one", audit(math.nan))
    found = generator_files.audit(tmp_path / "learnt")
    assert found is not None
    assert all(math.isnan(f.measured) for f in found.findings)


def test_nobody_else_can_read_what_is_not_released_yet(tmp_path):
    keep(tmp_path / "learnt", "one", None)
    assert (tmp_path / "learnt").stat().st_mode & 0o077 == 0
    generator_files.release_to(tmp_path / "learnt", tmp_path / "released")
    assert (tmp_path / "released" / "generator.safetensors").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("cut", range(4))
def test_a_copy_that_is_cut_short_stands_beside_nobody_elses_weights_and_can_be_made_again(tmp_path, monkeypatch, cut):
    kept, released = tmp_path / "learnt", tmp_path / "released"
    keep(tmp_path / "before", "old", audit())
    generator_files.release_to(tmp_path / "before", released)
    keep(kept, "new", None)
    honest, done = sink.replacing, []

    def replacing(path):
        if len(done) == cut:
            raise KeyboardInterrupt
        done.append(path)
        return honest(path)

    with monkeypatch.context() as patched:
        patched.setattr(sink, "replacing", replacing)
        if cut < 3:
            with pytest.raises(KeyboardInterrupt):
                generator_files.release_to(kept, released)
        else:
            generator_files.release_to(kept, released)
    assert not generator_files.found(released, "old")
    assert generator_files.found(released, "new") == (cut == 3)
    assert kept.exists() == (cut < 3), "it goes once its copy is whole"
    if cut < 3:
        generator_files.release_to(kept, released)
    assert generator_files.found(released, "new")
    assert generator_files.audit(released) is None, "the audit of another training went with it"


def test_the_last_attack_is_read_back_and_one_of_an_older_form_is_none(tmp_path):
    assert generator_files.last_attack(tmp_path) == {}
    file, proved = tmp_path / generator_files.ATTACKED, dict.fromkeys(generator_files.PROVED, 0.5)
    file.write_text(json.dumps({**proved, "told": "much"}))
    assert generator_files.last_attack(tmp_path) == proved
    file.write_text(json.dumps({"passed": True, "claimed": 9.4, "epsilon": 0.6, "guesses": 1000}))
    assert generator_files.last_attack(tmp_path) == {}

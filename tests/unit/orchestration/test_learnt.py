"""What was learnt is whole or absent, and says whose it is."""

import math

import pytest

from dp_synth_pipeline.model import initialization
from dp_synth_pipeline.model.generation import Generator
from dp_synth_pipeline.model.spec import GeneratorSpec
from dp_synth_pipeline.orchestration import learnt
from dp_synth_pipeline.privacy.audit import NAMES, Audit, Finding
from dp_synth_pipeline.tabular.targets import sink

SPEC = GeneratorSpec(hidden=4)


def made() -> Generator:
    return Generator(initialization.begin((2, 3), SPEC.with_(start="random"), None), None)


def audit(measured: float = 1.0) -> Audit:
    return Audit(3, tuple(Finding(name, True, 1.0, measured, 0.5, 2.0, "It fits.") for name in NAMES))


def keep(folder, release: str, found: Audit | None) -> None:
    learnt.keep(folder, made(), SPEC, {"release": release, "schema": "{}"}, "{}", found)


def test_what_was_learnt_is_found_under_its_release_and_no_other(tmp_path):
    place = tmp_path / "learnt"
    assert not learnt.found(place, "one")
    keep(place, "one", audit())
    assert learnt.found(place, "one")
    assert not learnt.found(place, "two")
    assert learnt.audit(place) == audit()


def test_an_audit_without_a_finite_figure_is_read_back(tmp_path):
    keep(tmp_path / "learnt", "one", audit(math.nan))
    found = learnt.audit(tmp_path / "learnt")
    assert found is not None
    assert all(math.isnan(f.measured) for f in found.findings)


def test_nobody_else_can_read_what_is_not_released_yet(tmp_path):
    keep(tmp_path / "learnt", "one", None)
    assert (tmp_path / "learnt").stat().st_mode & 0o077 == 0
    learnt.release_to(tmp_path / "learnt", tmp_path / "released")
    assert (tmp_path / "released" / "generator.safetensors").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("cut", range(4))
def test_a_copy_that_is_cut_short_stands_beside_nobody_elses_weights_and_can_be_made_again(tmp_path, monkeypatch, cut):
    kept, released = tmp_path / "learnt", tmp_path / "released"
    keep(tmp_path / "before", "old", audit())
    learnt.release_to(tmp_path / "before", released)
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
                learnt.release_to(kept, released)
        else:
            learnt.release_to(kept, released)
    assert not learnt.found(released, "old")
    assert learnt.found(released, "new") == (cut == 3)
    learnt.release_to(kept, released)
    assert learnt.found(released, "new")
    assert learnt.audit(released) is None, "the audit of another training went with it"

"""No module of the package imports, by whatever way, a module that imports it: what is imported for types alone counts."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def test_no_modules_import_one_another_in_a_circle() -> None:
    graph = grimp.build_graph("dp_synth_pipeline", exclude_type_checking_imports=False, cache_dir=None)
    modules = {"dp_synth_pipeline", *graph.find_descendants("dp_synth_pipeline")}
    assert len(modules) > 200
    try:
        TopologicalSorter({m: graph.find_modules_directly_imported_by(m) & modules for m in modules}).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None

"""The rooms within `tabular`: their modules import one another in no circle, whatever is imported for types alone."""

from graphlib import TopologicalSorter

import grimp

ROOM = "dp_synth_pipeline.tabular"


def test_no_modules_import_one_another_in_a_circle() -> None:
    graph = grimp.build_graph("dp_synth_pipeline", exclude_type_checking_imports=False, cache_dir=None)
    modules = {ROOM, *graph.find_descendants(ROOM)}
    TopologicalSorter({m: graph.find_modules_directly_imported_by(m) & modules for m in modules}).prepare()

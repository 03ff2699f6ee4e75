"""The state of a release of related tables comes back from JSON as it was, and that of an earlier version as well."""

import json
from pathlib import Path

from dp_synth_pipeline.synthesis.database.state import DatabaseState


def test_what_was_found_of_columns_that_parents_carry_comes_back():
    found = {"visits": {"sex": {"static": True}, "age": {"monotone": "increasing"}, "left": {"until": "next"}}}
    state = DatabaseState("r1", {"epsilon": 3.0}, found=found)
    written = json.loads(json.dumps(state.to_dict()))
    assert DatabaseState.from_dict(written) == state
    del written["found"]
    assert DatabaseState.from_dict(written).found == {}, "of a version that looked for nothing"
    written |= {"static": {"visits": ["sex"]}, "increasing": {"visits": ["age"], "drugs": []}}
    del found["visits"]["left"]
    assert DatabaseState.from_dict(written).found == found | {"drugs": {}}, "of one that kept two lists"


def test_where_copies_of_public_tables_lie_comes_back():
    state = DatabaseState("r1", {"epsilon": 3.0}, public={"products": Path("/store/products/public.parquet")})
    written = json.loads(json.dumps(state.to_dict()))
    assert DatabaseState.from_dict(written) == state
    del written["public"]  # of a version that copied none
    assert DatabaseState.from_dict(written).public == {}

"""The registry of kinds: what is saved of a kind, how it is looked up, and that one file is all that a new one needs."""

import copy
import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.run_state import dump_schema, load_schema
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.kinds import KINDS, Column, Kind, base, lookup, register
from dp_synth_pipeline.tabular.kinds.decimal import real_edges
from dp_synth_pipeline.tabular.kinds.number import Number
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.profiling.suggest import suggest
from dp_synth_pipeline.tabular.schema import TableSchema, build
from tests.unit.tabular.snapshots import profile, quiet, take

ADAPTER = TypeAdapter(TableSchema)

STORAGE = {
    "city": pa.large_string(),
    "grade": pa.string(),
    "age": pa.int16(),
    "cost": pa.float64(),
    "ok": pa.bool_(),
    "born": pa.date32(),
    "seen": pa.timestamp("us", "UTC"),
    "took": pa.duration("ns"),
    "rose": pa.time64("us"),
    "id": pa.int8(),
    "year": pa.int32(),
    "note": pa.string(),
}

DECLARED = {
    "grade": {"kind": "ordinal", "categories": ["low", "high"]},
    "cost": {"nulls": "mean", "decimals": 2},
    "age": {"lower": 0, "upper": 120},
    "born": {"lower": date(1900, 1, 1), "format": "%d.%m.%Y"},
    "seen": {"lower": datetime(2020, 1, 1)},
    "took": {"upper": timedelta(days=2)},
    "id": {"kind": "identifier"},
    "year": {"kind": "constant", "constant": 2024},
    "note": {"kind": "excluded"},
}


def test_the_json_of_a_schema_with_every_kind_is_what_saved_profiles_and_generators_hold() -> None:
    """Digests of schemas, by which a cached profile is found again, depend on every byte."""
    schema = build(STORAGE, DECLARED)
    earlier = {k for k in KINDS.values() if not k.regenerated and not k.composed}
    assert {c.kind for c in schema} == earlier | {Kind.IDENTIFIER}
    pinned = Path(__file__).with_name("schema_of_every_kind.json").read_bytes().strip()
    since = {"pattern", "locale", "after", "same_as", "part", "max_length", "model", "prompt"}
    later = dict.fromkeys(range(len(schema.columns)), since)
    assert ADAPTER.dump_json(schema, exclude={"order": True, "columns": later}) == pinned
    assert not any(fact in dump_schema(replace(schema, order=schema.columns[0])) for fact in [*later[0], '"order"'])
    assert ADAPTER.validate_json(pinned).names == schema.names
    assert [c.kind for c in ADAPTER.validate_json(pinned)] == [c.kind for c in schema]


def test_a_schema_with_every_regenerated_kind_is_read_back_with_its_patterns_and_locales() -> None:
    made_anew = [k for k in KINDS.values() if k.regenerated]
    declared = {k.name: {"kind": k.name, **({"locale": "fr_FR"} if "locale" in k.takes else {})} for k in made_anew}
    declared["identifier"]["pattern"] = "MRN-####"
    schema = build({**{k.name: pa.string() for k in made_anew}, "age": pa.int64()}, declared)
    assert load_schema(dump_schema(schema)) == schema
    assert (schema["identifier"].pattern, schema["email"].locale) == ("MRN-####", "fr_FR")


def test_a_profile_saves_kinds_by_name_and_reads_the_same_objects_back() -> None:
    columns = tuple(ColumnProfile(name, kind, (), ()) for name, kind in KINDS.items() if kind.learned)
    text = TableProfile(10, 10, "row", columns).to_json()
    assert all(f'"kind": "{c.name}"' in text for c in columns)
    assert [c.kind for c in TableProfile.from_json(text).columns] == [c.kind for c in columns]


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_there_is_one_object_of_each_kind_however_it_is_copied(kind: Kind) -> None:
    assert lookup(str(kind)) is copy.deepcopy(kind) is pickle.loads(pickle.dumps(kind)) is kind
    assert getattr(Kind, kind.name.upper()) is kind


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"expected one of category, ordinal, .*, excluded, .*, got 'numeral'"):
        lookup("numeral")


class Weight(Number):
    """Weights in kilograms, stored as text such as `71.5 kg`."""

    name = "weight"
    fractional = True
    read_from = (pa.types.is_string,)

    def line(self, values: pa.Array) -> pa.Array:
        return pa.array([None if v is None else float(v.removesuffix(" kg")) for v in values.to_pylist()], pa.float64())

    def key(self, column: Column, name: str) -> str:
        return f"CAST(replace({name}, ' kg', '') AS DOUBLE)"

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        return real_edges()

    def step(self, decimals: int | None, resolution: int | None = None) -> float:
        return 0.5

    def to_arrow(self, x: np.ndarray, null: np.ndarray, column: Column) -> pa.Array:
        return pa.array([None if n else f"{v:g} kg" for v, n in zip(x.tolist(), null, strict=True)], pa.string())


@pytest.fixture
def weight() -> Iterator[Kind]:
    yield register(Weight)
    del base.KINDS["weight"], Kind.WEIGHT  # type: ignore[attr-defined]


def test_a_kind_of_ones_own_goes_from_schema_to_profile_to_codec_and_back(tmp_path: Path, weight: Kind) -> None:
    """Nothing but the class above knows of it."""
    rng = np.random.default_rng()
    weights = np.round(2 * np.clip(rng.normal(70, 10, 3000), 40, 100)) / 2
    cells = [None if i % 10 == 0 else f"{w:g} kg" for i, w in enumerate(weights)]
    table = pa.table({"weight": cells, "sex": rng.choice(["F", "M"], 3000)})
    snapshot = take(table, tmp_path, {"weight": {"kind": "weight", "lower": 30, "upper": 120}})
    assert snapshot.schema["weight"].kind is weight
    assert ADAPTER.validate_json(ADAPTER.dump_json(snapshot.schema)) == snapshot.schema

    released = TableProfile.from_json(profile(snapshot, quiet(3000)).to_json())
    facts = released["weight"]
    assert facts.mean == pytest.approx(70, abs=1.5)
    assert facts.null_rate == pytest.approx(0.1, abs=0.02)
    assert suggest(snapshot.schema["weight"], facts, 3000).facts["kind"] == "weight"

    whole = nulls.complete(snapshot.path, snapshot.schema, released, tmp_path / "completed.parquet")
    codec = TableCodec(snapshot.schema, released)
    codes, _ = codec.encode_file(whole, tmp_path / "codes.npy")
    back = codec.decode(codes)
    made = np.array([float(v.removesuffix(" kg")) for v in back.column("weight").drop_null().to_pylist()])
    assert back.schema.field("weight").type == pa.string()
    assert back.column("weight").null_count == pytest.approx(300, abs=60)
    assert made.mean() == pytest.approx(70, abs=1.5)
    assert ((made >= 30) & (made <= 120) & (2 * made == np.round(2 * made))).all()

"""What a column's kind says about it: one object a kind, registered by the name that schemas and profiles are saved with.

A kind is the only place that knows how its values are recognised, declared, read from a CSV, profiled, coded, written and
suggested. A new one is a subclass of `Kind` that is passed to `register`. `Column` stands here too, since a column has a
kind and a kind reads columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular.policies import NullPolicy, OtherPolicy
from dp_synth_pipeline.tabular.storage import parse_storage, synthetic_type

if TYPE_CHECKING:
    import pandas as pd

NUMBER, MOMENT, LENGTH = "a number", "a date or datetime", "a duration"
"""Families of kinds: values of one family can be compared and added."""

Test = Callable[[pa.DataType], bool]

Bound = int | float | date | datetime | timedelta
"""A declared end of a number line."""


class Codec(Protocol):
    """Turns the values of one column into codes from 0 to `cardinality` - 1, and codes into values.

    Attributes:
        cardinality: the number of codes.
        marginal: their released probabilities.
        order: the codes of values in an order, by that order; null has none.
        single: which codes stand for one value, and not for several, bool (cardinality,).
    """

    cardinality: int
    marginal: np.ndarray

    @property
    def order(self) -> Sequence[int]: ...

    @property
    def single(self) -> np.ndarray: ...

    def encode(self, values: pa.Array) -> np.ndarray:
        """Return codes, int64 (rows,)."""
        ...

    def decode(self, codes: np.ndarray, rng: np.random.Generator, quantiles: np.ndarray | None = None) -> pa.Array:
        """Return values of the column's storage type; `quantiles` say where in its cell each row lies."""
        ...


class Kind:
    """What the values of a column mean. Methods about a number line are called for kinds with `numeric` only.

    Attributes:
        name: what a person declares, and what is saved.
        stored_as: tests of the storage types that suggest this kind.
        read_from: tests of the other storage types that can be read as it.
        learned: whether the profile and the generator look at the column.
        published: whether the synthetic table has the column.
        numeric: whether values lie on a number line, so that bounds, bins and a mean make sense.
        categorical: whether values are names, kept as text from the snapshot on.
        ordered: whether near codes are near values.
        whole: whether neighbouring points of the number line are neighbouring values.
        fractional: whether values have digits after the point.
        countable: whether values may be the steps of a scale, or running numbers.
        numbered: whether generation numbers the rows.
        regenerated: whether values are made anew from the number of their row.
        composed: whether values are texts that a model of their own writes, so that the generator sees their lengths alone.
        unique: whether no two rows have the same value, however many there are.
        takes: facts that only some kinds have.
        family: what its values can be compared with; None for nothing.
        fixed: whether every row holds the declared constant.
        names: the values that every column of this kind has; None if each column has its own.
        least_count: the noisy count, in units of the noise, from which a publicly known value is kept.
        name_type: the Arrow type of released values that are not on a number line.
        expects: what a declared bound should be.
        sql: the SQL type of a snapshot's values, unless its storage says more.
        rounds: how many range-finding histograms come between the public grid and the last histogram.
        ladder: steps that values may be rounded to, the coarsest first; none where they are not.
        effects: the calendar effects that are looked for, by their names in `calendar_effects`.
        usual: points between which values of most tables lie: where noise hides a column's, they are expected there.
        rule_scale: how many of the units that rules compare there are in one unit of the number line.
        ends_as_text: whether checks name the ends of the number line as text.
        codec: makes the codec of a column from its profile.
    """

    name: ClassVar[str]
    stored_as: ClassVar[tuple[Test, ...]] = ()
    read_from: ClassVar[tuple[Test, ...]] = ()
    learned: ClassVar[bool] = True
    published: ClassVar[bool] = True
    numeric: ClassVar[bool] = False
    categorical: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    fractional: ClassVar[bool] = False
    countable: ClassVar[bool] = False
    numbered: ClassVar[bool] = False
    regenerated: ClassVar[bool] = False
    composed: ClassVar[bool] = False
    unique: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ()
    family: ClassVar[str | None] = None
    fixed: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...] | None] = None
    least_count: ClassVar[float] = -math.inf
    name_type: ClassVar[pa.DataType] = pa.string()
    expects: ClassVar[str] = "no bound"
    sql: ClassVar[str] = "DOUBLE"
    rounds: ClassVar[int] = 1
    ladder: ClassVar[tuple[float, ...]] = ()
    effects: ClassVar[tuple[str, ...]] = ()
    usual: ClassVar[tuple[float, float]] = (-1e6, 1e6)
    rule_scale: ClassVar[float] = 1
    ends_as_text: ClassVar[bool] = False
    codec: ClassVar[Callable[..., Codec]]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<kind {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return lookup, (self.name,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, Kind) else lookup(value),
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema()),
        )

    # How a column of this kind is recognised and declared.

    def recognises(self, arrow_type: pa.DataType) -> bool:
        """Whether a column stored so is of this kind unless a person declares another; storage types are public."""
        return any(holds(arrow_type) for holds in self.stored_as)

    def reads(self, arrow_type: pa.DataType) -> bool:
        """Whether values stored so, of a type that some kind recognises, can be read as this kind and written back."""
        return any(holds(arrow_type) for holds in (*self.stored_as, *self.read_from))

    def storage(self, arrow_type: pa.DataType) -> str:
        """Name the storage type of the synthetic column."""
        return synthetic_type(arrow_type)

    def check_declared(self, name: str, arrow_type: pa.DataType, facts: Mapping[str, Any]) -> None:
        """Refuse declared facts that a column of this kind cannot have, or the lack of one that it needs."""
        return

    def bound(self, value: Any, what: str) -> Bound:
        """Return a declared bound as a value of the number line; dates and durations may be written as text.

        Raises:
            InvalidInput: if it is none.
        """
        raise self.wrong_bound(value, what)

    def wrong_bound(self, value: Any, what: str) -> InvalidInput:
        """Say what a bound should be."""
        return InvalidInput(f"{what}: a column of kind {self} takes {self.expects}, got {value!r}.")

    # How the cells of a CSV are read.

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        """Return the SQL type that the cells of a CSV have once a person declares this kind and `facts`."""
        return "VARCHAR"

    # How values lie on the number line, and how they are profiled.

    def to_axis(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return `(x float64 (rows,), null bool (rows,))`; x is 0 where null."""
        raise self._no_axis()

    def line(self, values: pa.Array) -> pa.Array:
        """Return values as numbers of the number line, whole ones exactly; null where they are."""
        raise self._no_axis()

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        """Return the ascending edges of a coarse grid that covers every value and depends on no data."""
        raise self._no_axis()

    def ends(self, arrow_type: pa.DataType) -> tuple[int | float, int | float]:
        """Return the least and largest point that the storage type holds by its meaning."""
        return -math.inf, math.inf

    def step(self, decimals: int | None, resolution: int | None = None) -> float:
        """Return the distance between neighbouring values; 0 for a continuum."""
        raise self._no_axis()

    def decimals(self, released: int | None) -> int | None:
        """Return the digits after the point that values are rounded to; None for full precision."""
        return released

    def measures_precision(self, column: Column) -> bool:
        """Whether the digits or the resolution of values must be found in the rows."""
        return False

    def declared_decimals(self, column: Column) -> int | None:
        """Return the digits after the point that are known without looking at a row."""
        return None

    def precision_counts(self, x: np.ndarray, column: Column) -> np.ndarray:
        """Count values by the precision that they need, the coarsest first, int64 (precisions,)."""
        raise self._no_axis()

    def precision(self, needed: int) -> tuple[int | None, int | None]:
        """Return decimals and resolution in microseconds for a number of `precision_counts`."""
        raise self._no_axis()

    def key(self, column: Column, name: str) -> str:
        """Write the SQL by which exact counts tell values apart; `name` is the column's, quoted."""
        return f"CAST({name} AS VARCHAR)"

    def released(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Return values that are not on a number line as a profile holds them."""
        return tuple(names)

    def order(self, column: Column, values: Sequence[Any], shares: Sequence[float] | np.ndarray) -> list[int]:
        """Return where each released value comes: in its own order if there is one, else the likeliest first."""
        return np.argsort(-np.asarray(shares, dtype=float), kind="stable").tolist()

    # How values are filled in, decoded and written.

    def fill(self, constant: Any) -> Any:
        """Return a declared constant as a snapshot holds values."""
        return constant

    def released_point(self, column: Column, value: Any) -> Any:
        """Return a value of a snapshot as a profile holds it: text, a boolean, or a point of the number line."""
        return str(value)

    def from_point(self, point: int | float, decimals: int | None, resolution: int | None) -> Any:
        """Return the value nearest to a point of the number line that a column can hold."""
        raise self._no_axis()

    def exactly(self, points: Sequence[int] | np.ndarray, arrow_type: pa.DataType) -> pa.Array | None:
        """Return whole points as values of the storage type, exactly; None if doubles are exact enough."""
        return None

    def to_arrow(self, x: np.ndarray, null: np.ndarray, column: Column) -> pa.Array:
        """Return points of the number line as values of the column's storage type."""
        raise self._no_axis()

    def generated(self, column: Column, first: int, rows: int) -> pa.Array:
        """Return the values of a column that is published without being learned, for rows from `first` + 1."""
        raise TypeError(f"columns of kind {self} are learned")

    def sql_type(self, storage: str) -> str:
        """Name the SQL type of a snapshot's values."""
        return self.sql

    def limits(self, column: Column) -> tuple[str, ...]:
        """Say what the synthetic table cannot hold as exactly as its source."""
        return ()

    # How values are suggested, checked and shown.

    def suggested_bounds(self, low: float, high: float) -> dict[str, Any]:
        """Return released ends, rounded outward, as a person would declare them.

        Raises:
            ValueError, OverflowError: if a person could not write them.
        """
        raise self._no_axis()

    def shown(self, point: float) -> str:
        """Write a point of the number line as a person would declare it."""
        raise self._no_axis()

    def point(self, value: Any) -> Any:
        """Place a declared value on the number line; what is a point already stays as it is."""
        return value

    def storage_step(self, column: Column, decimals: int | None, largest: float) -> float:
        """Return the step that storing a value may round it by; `largest` is the largest magnitude."""
        raise self._no_axis()

    def json_end(self, x: float, column: Column) -> Any:
        """Return a point of the number line as a check names it."""
        return x

    def check_label(self, end: Any) -> str:
        """Write an end that `json_end` returned, for a person."""
        return f"{end:,.6g}" if isinstance(end, float) else f"{end:,}" if isinstance(end, int) else str(end)

    def same_cells(self, other: Kind) -> bool:
        """Whether columns of both kinds can be coded by one codec."""
        return self is other

    def series(self, values: pd.Series) -> np.ndarray:
        """Return numbers, days or seconds, float64 (rows,), of rows as pandas holds them; NaN where null."""
        raise self._no_axis()

    def spelled(self, values: pd.Series) -> pd.Series:
        """Return values that are not on a number line in one spelling, of rows as pandas holds them."""
        import pandas as pd

        if pd.api.types.is_bool_dtype(values):
            return spelled_truths(values)
        if pd.api.types.is_numeric_dtype(values):
            return pd.Series(values.to_numpy(dtype=np.float64, na_value=np.nan)).astype(str).str.removesuffix(".0")
        return values.astype(str)

    def place(self, x: float) -> str:
        """Write what `series` returned for a person."""
        raise self._no_axis()

    def bar_width(self, rough: float, width: float) -> float:
        """Return the width of a chart's bars near `width`, a round number of at least `rough`."""
        return max(1.0, math.ceil(width)) if self.whole else width

    def _no_axis(self) -> TypeError:
        return TypeError(f"values of kind {self} lie on no number line")


@dataclass(frozen=True)
class Column:
    """One column's public facts; `None` means not declared, so the profile measures it.

    Attributes:
        name, kind: the column, and what it means to the codec.
        storage: Arrow type of the synthetic column, as text.
        nulls: what becomes of a null before training.
        constant: what `nulls: constant` fills in, or the value of a constant column.
        categories: the allowed values as text; in order, for an ordinal column.
        lower, upper: numbers, dates, datetimes or durations.
        decimals: digits after the point.
        zone: time zone that datetimes are written in.
        other: what becomes of suppressed categories.
        other_label: what `other: draw` writes for them; public.
        format: how dates and times are written in a CSV, for strftime; declared, or detected in a CSV. Public.
        pattern: how an identifier counts: # is a digit, ? a letter.
        locale: the language and country of made-up names and numbers, such as de_DE; None is en_US.
        after: the column that its values are never before, so that their offset from it is modelled.
        same_as: the column that its values are the same as, in its own type, so that nothing of it is modelled.
        part: which part of that column, a date or datetime, its values are, such as month, which is modelled; None for the
            whole.
        max_length: characters of a text, at most; longer ones are cut.
        model: where the pretrained language model lies that writes a text; None to have its words counted.
        prompt: what that model is asked to write, if texts vote for what it wrote; None to fine-tune it.
    """

    name: str
    kind: Kind
    storage: str
    nulls: NullPolicy = NullPolicy.KEEP
    constant: Any = None
    categories: tuple[str, ...] | None = None
    lower: Bound | None = None
    upper: Bound | None = None
    decimals: int | None = None
    zone: str | None = None
    other: OtherPolicy = OtherPolicy.DROP
    other_label: str = "other"
    format: str | None = None
    pattern: str | None = None
    locale: str | None = None
    after: str | None = None
    same_as: str | None = None
    part: str | None = None
    max_length: int | None = None
    model: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        if self.nulls is NullPolicy.CONSTANT and self.constant is None and self.kind.learned:
            raise InvalidInput(f"column {self.name!r}: nulls: constant needs a value, as in 'constant: unknown'.")
        if self.lower is not None and self.upper is not None and self._crossed():
            raise InvalidInput(f"column {self.name!r}: lower is above upper.")
        if self.categories is not None and len(set(self.categories)) != len(self.categories):
            raise InvalidInput(f"column {self.name!r}: a category is declared twice.")

    def _crossed(self) -> bool:
        try:
            return self.lower > self.upper  # type: ignore[operator]
        except TypeError:
            raise InvalidInput(f"column {self.name!r}: lower and upper must be of one type.") from None

    @property
    def arrow_type(self) -> pa.DataType:
        """The storage type that the synthetic column will have."""
        return parse_storage(self.storage)

    @property
    def base(self) -> str | None:
        """The column that it hangs on; None if it stands by itself."""
        return self.after if self.after is not None else self.same_as

    @property
    def declared(self) -> tuple[str, ...]:
        """Names of the facts that a person declared about this column."""
        names = ("categories", "lower", "upper", "decimals", "constant", "zone")
        return tuple(n for n in names if getattr(self, n) is not None)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The values that are publicly known; None if they must be found in the rows, or lie on a number line."""
        return self.categories if self.kind.names is None else self.kind.names

    @property
    def label(self) -> str | None:
        """What stands for suppressed categories; None if generation leaves them out."""
        return self.other_label if self.other is OtherPolicy.DRAW and self.kind.categorical else None


def spelled_truths(values: pd.Series) -> pd.Series:
    """Return truth values as `true` and `false`, however pandas holds them."""
    return values.astype(str).str.lower().str.removesuffix(".0").replace({"1": "true", "0": "false"})


KINDS: dict[str, Kind] = {}
"""Every kind by its name, in the order in which messages list them; `kinds` registers ours."""


def register(kind: type[Kind]) -> Kind:
    """Make a kind known by its name, and as an attribute of `Kind`, such as `Kind.DATE`; return its one object."""
    KINDS[kind.name] = one = kind()
    setattr(Kind, kind.name.upper(), one)
    return one


def lookup(name: Any) -> Kind:
    """Return the kind of a name.

    Raises:
        InvalidInput: naming the known ones.
    """
    if str(name) not in KINDS:
        raise InvalidInput(f"expected one of {', '.join(KINDS)}, got {name!r}.{nearest(name, KINDS)}")
    return KINDS[str(name)]


def kind_of(name: str, arrow_type: pa.DataType) -> Kind:
    """Infer a column's kind from its storage type alone, which is public; values are never looked at.

    Raises:
        InvalidInput: if no kind recognises the type.
    """
    for kind in KINDS.values():
        if kind.recognises(arrow_type):
            return kind
    raise InvalidInput(
        f"column {name!r} has storage type {arrow_type}, which cannot be synthesized; cast it in the source, such as to a "
        f"number, or leave it out: columns: {{{name}: {{kind: excluded}}}}. In a CSV, kind: category takes it as text."
    )


def readable(arrow_type: pa.DataType, kind: Kind, name: str) -> bool:
    """Whether values of this storage type can be read as `kind` and written back."""
    if not kind.published:
        return True
    kind_of(name, arrow_type)
    return kind.reads(arrow_type)

"""Asks Great Expectations whether a synthetic table is as expected: one context, one suite, one validation.

With `custom` the only module that imports great_expectations, and only when a table is validated. Its telemetry, progress
bars and log are off: it sees the synthetic table alone, and what it finds comes back as counts, rates and types, never as
cells.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.storage import is_length
from dp_synth_pipeline.validation import drift, regenerated, texts, verdict
from dp_synth_pipeline.validation.checks import Check, CheckResult
from dp_synth_pipeline.validation.custom import expectation_class
from dp_synth_pipeline.validation.expectations import STORAGE_EXPECTATION
from dp_synth_pipeline.validation.user_suite import columns_of

TEMPORAL_KWARGS = ("min_value", "max_value")

OWN: dict[str, Callable[[Check, pa.Table], tuple[bool, dict[str, Any]]]] = {
    regenerated.EXPECTATION: regenerated.evaluate,
    verdict.EXPECTATION: verdict.evaluate,
    drift.EXPECTATION: drift.evaluate,
    texts.EXPECTATION: texts.evaluate,
}
"""Checks of more than a table's rows, which Great Expectations has no word for."""

Figures = Mapping[str, Any]
"""What Great Expectations counted for one check."""


def validate(
    table: pd.DataFrame | pa.Table | str | Path, checks: Sequence[Check], *, docs: Callable[[Any], None] | None = None
) -> list[CheckResult]:
    """Return one result per check, in the order of `checks`; a check that cannot be evaluated has failed.

    Args:
        table: the synthetic table: a Parquet file, an Arrow table or a DataFrame. Storage types are compared exactly
            for the first two. A DataFrame cannot hold some of them, so there a column counts as being of the expected
            type if it casts to that type without loss.
        checks: as `suite_for` and `asked.Asked.suite` return them.
        docs: called with Great Expectations' own result, for whoever makes a page of it.

    Raises:
        InvalidInput: if two checks have one name, or an expectation is unknown to Great Expectations.
    """
    if len({c.name for c in checks}) != len(checks):
        raise InvalidInput("two checks have the same name; give each its own in the suite.")
    arrow = _load(table, checks)
    ours = {c.name: OWN[c.expectation](c, arrow) for c in checks if c.expectation in OWN}
    asked = [c for c in checks if c.name not in ours]
    with _silence():
        raw = _run(_comparable(arrow).to_pandas(types_mapper=pd.ArrowDtype), arrow.schema, asked, docs)
    return [
        CheckResult(c.name, ours[c.name][0], c.blocking, c.column, c.description, ours[c.name][1])
        if c.name in ours
        else _result(c, raw.get(c.name), arrow)
        for c in checks
    ]


def _load(table: pd.DataFrame | pa.Table | str | Path, checks: Sequence[Check]) -> pa.Table:
    if isinstance(table, pa.Table):
        return _without_index(table)
    if isinstance(table, (str, Path)):
        return _without_index(pq.read_table(table))
    arrow = _without_index(pa.Table.from_pandas(table, preserve_index=False))
    for check in checks:
        if check.expectation == STORAGE_EXPECTATION and arrow.schema.names.count(check.kwargs["column"]) == 1:
            arrow = _recast(arrow, check.kwargs["column"], check.kwargs["storage"])
    return arrow


def _without_index(arrow: pa.Table) -> pa.Table:
    return arrow.replace_schema_metadata(None)  # pandas' own metadata would override the Arrow types


def _comparable(arrow: pa.Table) -> pa.Table:
    """Return the table with lengths of time as whole microseconds: Great Expectations compares no durations."""
    micros = [f.with_type(pa.int64()) if is_length(f.type) else f for f in arrow.schema]
    lengths = [f.with_type(pa.duration("us")) if pa.types.is_duration(f.type) else f for f in arrow.schema]
    return arrow.cast(pa.schema(lengths), safe=False).cast(pa.schema(micros))


def _recast(arrow: pa.Table, name: str, storage: str) -> pa.Table:
    """Bring a DataFrame's column to the expected type if nothing is lost and it stays of one family."""
    from dp_synth_pipeline.tabular.storage import parse_storage

    index, wanted = arrow.schema.get_field_index(name), parse_storage(storage)
    column = arrow.column(index)
    if _family(column.type) not in (_family(wanted), "null"):
        return arrow
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return arrow.set_column(index, name, column.cast(wanted))
    return arrow


def _family(storage: pa.DataType) -> str:
    t = pa.types
    if t.is_null(storage):
        return "null"
    if t.is_integer(storage) or t.is_floating(storage) or t.is_decimal(storage):
        return "number"
    if t.is_date(storage) or t.is_timestamp(storage):
        return "time"
    if t.is_string(storage) or t.is_large_string(storage) or t.is_dictionary(storage):
        return "text"
    return str(storage)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep Great Expectations off the network, the terminal and the log while it works."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read once, when the library is first imported
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the library sets the levels of its own loggers, whatever one asks for
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _run(
    frame: pd.DataFrame, storage: pa.Schema, checks: Sequence[Check], docs: Callable[[Any], None] | None = None
) -> dict[str, dict[str, Any]]:
    """Return, per check name, Great Expectations' verdict, figures and exception name."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)  # type: ignore[assignment]
    asset = context.data_sources.add_pandas("synthetic").add_dataframe_asset("table")
    data = asset.add_batch_definition_whole_dataframe("whole")
    made, results = _expectations(checks, storage)
    try:
        suite = context.suites.add(gx.ExpectationSuite(name="synthetic", expectations=made))
        asked = context.validation_definitions.add(gx.ValidationDefinition(name="synthetic", data=data, suite=suite))
        figures = {"result_format": "BASIC", "partial_unexpected_count": 0}
        outcome = asked.run(batch_parameters={"dataframe": frame}, result_format=figures)
    except Exception as error:  # any failure of the library is a failed check, and its message may quote cells
        results = {c.name: {"passed": False, "figures": {}, "error": type(error).__name__} for c in checks}
        outcome = None
    for r in outcome.results if outcome is not None else ():
        config = r.expectation_config
        if config is not None:
            results[config.meta["check"]] = {"passed": bool(r.success), "figures": r.result, "error": r.exception_info}
    if docs is not None:
        docs(outcome)
    return results


def _expectations(checks: Sequence[Check], storage: pa.Schema) -> tuple[list[Any], dict[str, dict[str, Any]]]:
    """Return what Great Expectations is asked, and verdicts on what cannot even be asked."""
    made, failed = [], {}
    for check in checks:
        try:
            made.append(_expectation(check, storage))
        except InvalidInput:
            raise
        except Exception as error:  # arguments that the expectation does not take
            failed[check.name] = {"passed": False, "figures": {}, "error": type(error).__name__}
    return made, failed


def _expectation(check: Check, storage: pa.Schema) -> Any:
    factory = expectation_class(check.expectation)
    if factory is None:
        raise InvalidInput(f"check {check.name!r}: Great Expectations has no {check.expectation}; correct the suite.")
    kwargs = dict(check.kwargs)
    column = kwargs.get("column")
    found = storage.field(column).type if storage.names.count(column) == 1 else None
    if found is not None:
        kwargs = _typed(kwargs, found)
    if check.expectation == STORAGE_EXPECTATION:
        kwargs["storage"] = _seen_as(kwargs["storage"], found)
    told = {"description": check.description, "meta": {"check": check.name}}
    return factory(**kwargs, **told, severity="critical" if check.blocking else "warning")


def _seen_as(expected: str, found: pa.DataType | None) -> str:
    """Name the expected storage as the frame shows it, where a duration is an integer."""
    if found is not None and is_length(found):
        return "int64[pyarrow]" if expected == str(found) else expected
    return f"{expected}[pyarrow]"


def _typed(kwargs: dict[str, Any], storage: pa.DataType) -> dict[str, Any]:
    """Turn ISO text into dates and datetimes where the column holds those."""
    if not (pa.types.is_date(storage) or pa.types.is_timestamp(storage)):
        return kwargs

    def read(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        moment = datetime.fromisoformat(text)
        if pa.types.is_date(storage):
            return moment.date()
        if storage.tz is None:
            return moment.replace(tzinfo=None)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    out = {k: read(v) if k in TEMPORAL_KWARGS else v for k, v in kwargs.items()}
    if "value_set" in out:
        out["value_set"] = [read(v) for v in out["value_set"]]
    return out


def _result(check: Check, raw: dict[str, Any] | None, arrow: pa.Table) -> CheckResult:
    observed = _observed(check, raw, arrow)
    passed = raw is not None and raw["passed"] and "problem" not in observed
    return CheckResult(check.name, passed, check.blocking, check.column, check.description, observed)


def _observed(check: Check, raw: dict[str, Any] | None, arrow: pa.Table) -> dict[str, Any]:
    """Return the figures of one check; figures only, so that a cell cannot slip out."""
    if check.kind in ("rule", "own"):
        return _declared_figures(check, raw, arrow)
    if check.column is not None and arrow.schema.names.count(check.column) != 1:
        twice = check.column in arrow.schema.names
        return {"problem": "the column occurs more than once" if twice else "the column is missing"}
    figures = (raw or {}).get("figures") or {}
    if not figures:
        return {"problem": f"could not be evaluated: {_exception_name(raw)}"}
    return _FIGURES.get(check.kind, _value_figures)(check, figures, arrow)


def _declared_figures(check: Check, raw: dict[str, Any] | None, arrow: pa.Table) -> dict[str, Any]:
    """Return the figures of a rule, or of a person's own expectation: counts, and a number where one was observed."""
    for name in columns_of(check):
        if arrow.schema.names.count(name) != 1:
            twice = name in arrow.schema.names
            return {"problem": f"the column {name} {'occurs more than once' if twice else 'is missing'}"}
    figures = (raw or {}).get("figures") or {}
    if not figures:
        return {"problem": f"could not be evaluated: {_exception_name(raw)}"}
    value = figures.get("observed_value")
    counts: dict[str, Any] = {"rows": arrow.num_rows}
    if "unexpected_count" in figures:
        counts["unexpected"] = int(figures["unexpected_count"] or 0)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        counts["observed"] = float(value)
    return counts


def _column_figures(check: Check, _: Figures, arrow: pa.Table) -> dict[str, Any]:
    expected, present = list(check.kwargs.get("column_list", [])), arrow.schema.names
    return {
        "expected": len(expected),
        "found": len(present),
        "missing": [c for c in expected if c not in present],
        "unexpected": [c for c in present if c not in expected],
        "in_order": expected == present,
    }


def _type_figures(check: Check, _: Figures, arrow: pa.Table) -> dict[str, Any]:
    return {"expected": check.kwargs.get("storage"), "found": str(arrow.schema.field(check.column).type)}


def _row_figures(check: Check, _: Figures, arrow: pa.Table) -> dict[str, Any]:
    return {"expected": check.kwargs.get("value"), "found": arrow.num_rows}


def _null_figures(check: Check, _: Figures, arrow: pa.Table) -> dict[str, Any]:
    low, high = 1 - check.kwargs.get("max_value", 1.0), 1 - check.kwargs.get("min_value", 1.0)
    return {"lowest_allowed": round(low, 6), "highest_allowed": round(high, 6), **_nulls(check, arrow)}


def _value_figures(check: Check, figures: Figures, arrow: pa.Table) -> dict[str, Any]:
    counts = {"rows": arrow.num_rows, "unexpected": int(figures.get("unexpected_count", 0))}
    return {**counts, **_allowed_values(check), **_nulls(check, arrow)}


_FIGURES: dict[str, Callable[[Check, Figures, pa.Table], dict[str, Any]]] = {
    "columns": _column_figures,
    "types": _type_figures,
    "row_count": _row_figures,
    "null_rate": _null_figures,
}
"""What is told of a check of each kind; of every other kind, how many values are not as they should be."""


def _nulls(check: Check, arrow: pa.Table) -> dict[str, Any]:
    nulls = arrow.column(check.column).null_count
    return {"nulls": nulls, "null_rate": round(nulls / max(arrow.num_rows, 1), 6)}


def _allowed_values(check: Check) -> dict[str, Any]:
    if "value_set" in check.kwargs:
        return {"allowed_values": len(check.kwargs["value_set"])}
    bounds = {"lowest_allowed": check.kwargs.get("min_value"), "highest_allowed": check.kwargs.get("max_value")}
    return {k: v for k, v in bounds.items() if v is not None}


def _exception_name(raw: dict[str, Any] | None) -> str:
    """Return the class of the exception behind a check that did not run; never its message, which quotes cells."""
    found = re.findall(r"\b([A-Z]\w*(?:Error|Exception))\b", str((raw or {}).get("error", "")))
    return found[-1] if found else "Great Expectations gave no result"

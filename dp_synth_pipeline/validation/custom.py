"""Expectations of our own, in Great Expectations' terms: exact Arrow types, and rules that it has no word for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.tabular.constraints import Formula, holds, parse
from dp_synth_pipeline.validation.expectations import STORAGE_EXPECTATION
from dp_synth_pipeline.validation.rules import RULE_EXPECTATION


def expectation_class(kind: str) -> Any:
    """Return the class of an expectation type in snake case, Great Expectations' or ours; None if there is none."""
    import great_expectations.expectations as gxe

    own: dict[str, Callable[[], Any]] = {STORAGE_EXPECTATION: _storage, RULE_EXPECTATION: _rule}
    name = "".join(part.title() for part in kind.split("_"))
    return own[kind]() if kind in own else getattr(gxe, name, None)


@cache
def _storage() -> Any:
    """Return an expectation class for exact Arrow types; Great Expectations' own compares families of types."""
    from great_expectations.expectations.expectation import BatchExpectation

    class ExpectColumnStorageToBe(BatchExpectation):
        column: str
        storage: str
        metric_dependencies = ("table.column_types",)
        domain_keys = ("batch_id",)
        success_keys = ("column", "storage")

        def _validate(self, metrics: dict, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:
            types = {c["name"]: str(c["type"]) for c in metrics["table.column_types"]}
            found = types.get(self.column, "")
            return {"success": found == self.storage, "result": {"observed_value": found}}

    return ExpectColumnStorageToBe


@cache
def _rule() -> Any:
    """Return an expectation class for sums and dependencies, judged by `tabular.constraints` as generation judges them."""
    from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
    from great_expectations.expectations.expectation import MulticolumnMapExpectation
    from great_expectations.expectations.metrics.map_metric_provider.multicolumn_condition_partial import (
        multicolumn_condition_partial,
    )
    from great_expectations.expectations.metrics.map_metric_provider.multicolumn_map_metric_provider import (
        MulticolumnMapMetricProvider,
    )

    class MulticolumnValuesKeepRule(MulticolumnMapMetricProvider):
        condition_metric_name = "multicolumn_values.keep_rule"
        condition_domain_keys = (
            "batch_id",
            "table",
            "column_list",
            "row_condition",
            "condition_parser",
            "ignore_row_if",
        )
        condition_value_keys = ("rule", "digits")

        @multicolumn_condition_partial(engine=PandasExecutionEngine)
        def _pandas(cls, column_list: pd.DataFrame, **kwargs: Any) -> pd.Series:
            return kept(column_list, kwargs["rule"], kwargs.get("digits"))

    class ExpectMulticolumnValuesToKeepRule(MulticolumnMapExpectation):
        rule: str
        digits: int | None = None
        map_metric = "multicolumn_values.keep_rule"
        success_keys = ("rule", "digits", "mostly")
        args_keys = ("column_list", "rule", "digits")

    return ExpectMulticolumnValuesToKeepRule


def kept(frame: pd.DataFrame, text: str, digits: int | None = None) -> pd.Series:
    """Return whether each row keeps the rule, in the frame's own order."""
    rule, arrow = parse(text), pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    known = {rule.target: digits} if isinstance(rule, Formula) and digits is not None else {}
    return pd.Series(holds(rule, arrow, known), index=frame.index)

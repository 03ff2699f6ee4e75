"""Everything that is checked of one table: our own expectations, declared rules, a person's own suite, and severities.

Names come from declarations alone, so Dagster knows them before anything is read; `suite` gives the checks to those names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.constraints import Rule, digits
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation import drift, verdict
from dp_synth_pipeline.validation.checks import (
    DRIFT,
    GROUPS,
    OUTPUT,
    QUALITY,
    Check,
    CheckName,
    CheckResult,
    check_names,
    together,
)
from dp_synth_pipeline.validation.rules import rule_checks, rule_names

BLOCK = "block"


@dataclass(frozen=True)
class CheckPlan:
    """What is checked of one table, as a person asked for it.

    Attributes:
        columns: names of the published columns; None if they are not known ahead.
        rules: rules across columns.
        own: the expectations of a suite of their own.
        severity: check name or pattern to `warn` or `block`; the last that matches wins. The names of groups (types,
            domains, nulls) stand for their members.
        at_least: the verdict that charged figures must reach for the table to be published; None for any.
        drift_at_most: how far the table may have moved since the releases before it; None if it remembers none.
        outputs: names of the further tables that are drawn from the same generator, each of which has one check.
    """

    columns: Sequence[str] | None = None
    rules: Sequence[Rule] = ()
    own: Sequence[Check] = ()
    severity: Mapping[str, str] = field(default_factory=dict)
    at_least: str | None = None
    drift_at_most: float | None = None
    outputs: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = [n.name for n in self._names()]
        for pattern in self.severity:
            hidden = self.columns is None and ("__" in pattern or "*" in pattern)  # it may be about a column
            if not hidden and not any(fnmatchcase(n, pattern) for n in [*names, *GROUPS.values()]):
                raise InvalidInput(
                    f"validation: severity {pattern!r}: no check is called so; there are: {', '.join(names)}."
                )

    def names(self) -> list[CheckName]:
        """Return every check, before anything is read."""
        return [replace(n, blocking=self._blocks(n.name, n.blocking)) for n in self._names()]

    def suite(
        self,
        schema: TableSchema,
        profile: TableProfile,
        rows: int,
        metrics: Mapping[str, float] | None = None,
        *,
        moved: Mapping[str, Any] | None = None,
        conditional: bool = False,
    ) -> list[Check]:
        """Return every expectation, for a synthetic table of `rows` rows.

        Args:
            metrics: the charged figures of the generator, for the gate.
            moved: how far the table moved since the releases before; None if it goes on from none.
            conditional: the rows were drawn on a condition or by shares, so that any null rate is as expected.
        """
        gate = [] if self.at_least is None else [verdict.check_for(self.at_least, metrics or {})]
        since = [] if self.drift_at_most is None else [drift.check_for(self.drift_at_most, moved)]
        own = [replace(c, blocking=self._blocks(c.name, c.blocking)) for c in (*gate, *since, *self.own)]
        return [*self.suite_of_output(schema, profile, rows, conditional=conditional), *own]

    def suite_of_output(
        self, schema: TableSchema, profile: TableProfile, rows: int, *, conditional: bool
    ) -> list[Check]:
        """Return what every table drawn from the generator must meet: all but the gate and a person's own suite."""
        from dp_synth_pipeline.validation.expectations import suite_for

        ours = suite_for(schema, profile, rows, conditional=conditional)
        rules = rule_checks(self.rules, schema, digits(schema, profile))
        return [replace(c, blocking=self._blocks(c.name, c.blocking)) for c in (*ours, *rules)]

    def output_result(self, output: str, results: Sequence[CheckResult]) -> CheckResult:
        """Return one result for a further table, from those of its suite; it blocks iff one that failed does."""
        result = together(f"{OUTPUT}{output}", f"The further table {output!r}", results)
        return replace(result, blocking=self._blocks(result.name, result.blocking))

    def _names(self) -> list[CheckName]:
        own = [CheckName(c.name, c.blocking, None, c.description.rstrip(".")) for c in self.own]
        gate = [] if self.at_least is None else [CheckName(QUALITY, True, None, "the charged figures of quality")]
        since = (
            [] if self.drift_at_most is None else [CheckName(DRIFT, False, None, "how far the released counts moved")]
        )
        drawn = [CheckName(f"{OUTPUT}{n}", True, None, f"the further table {n}, as the first is") for n in self.outputs]
        return [*check_names(self.columns), *rule_names(self.rules), *gate, *since, *drawn, *own]

    def _blocks(self, name: str, default: bool) -> bool:
        severities = [v for pattern, v in self.severity.items() if any(fnmatchcase(n, pattern) for n in _called(name))]
        return severities[-1] == BLOCK if severities else default


def _called(name: str) -> list[str]:
    """Return a check's name, and its group's if it is about a column."""
    group = GROUPS.get(name.rpartition("__")[2]) if not name.startswith(("rule_", "own_", OUTPUT)) else None
    return [name, group] if group else [name]

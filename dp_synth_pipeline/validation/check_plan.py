"""Everything that is checked of one table: our own expectations, declared rules, a person's own suite, and severities.

Names come from declarations alone, so Dagster knows them before anything is read; `suite` gives the checks to those names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.constraints import Rule, digits
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation import verdict
from dp_synth_pipeline.validation.checks import GROUPS, QUALITY, Check, CheckName, check_names
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
    """

    columns: Sequence[str] | None = None
    rules: Sequence[Rule] = ()
    own: Sequence[Check] = ()
    severity: Mapping[str, str] = field(default_factory=dict)
    at_least: str | None = None

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
        self, schema: TableSchema, profile: TableProfile, rows: int, metrics: Mapping[str, float] | None = None
    ) -> list[Check]:
        """Return every expectation, for a synthetic table of `rows` rows.

        Args:
            metrics: the charged figures of the generator, for the gate.
        """
        from dp_synth_pipeline.validation.expectations import suite_for

        ours = [*suite_for(schema, profile, rows), *rule_checks(self.rules, schema, digits(schema, profile))]
        gate = [] if self.at_least is None else [verdict.check_for(self.at_least, metrics or {})]
        return [replace(c, blocking=self._blocks(c.name, c.blocking)) for c in (*ours, *gate, *self.own)]

    def _names(self) -> list[CheckName]:
        own = [CheckName(c.name, c.blocking, None, c.description.rstrip(".")) for c in self.own]
        gate = [] if self.at_least is None else [CheckName(QUALITY, True, None, "the charged figures of quality")]
        return [*check_names(self.columns), *rule_names(self.rules), *gate, *own]

    def _blocks(self, name: str, default: bool) -> bool:
        severities = [v for pattern, v in self.severity.items() if any(fnmatchcase(n, pattern) for n in _called(name))]
        return severities[-1] == BLOCK if severities else default


def _called(name: str) -> list[str]:
    """Return a check's name, and its group's if it is about a column."""
    group = GROUPS.get(name.rpartition("__")[2]) if not name.startswith(("rule_", "own_")) else None
    return [name, group] if group else [name]

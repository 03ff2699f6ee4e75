"""`SyntheticTable` builds the whole graph of one table from one YAML file."""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.build import build_synthetic_table
from dp_synth_pipeline.orchestration.checks import checked_by
from dp_synth_pipeline.orchestration.executors.placing import check_reachable, executor_of
from dp_synth_pipeline.orchestration.mistakes import about, explain
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis.store import ledger_url
from dp_synth_pipeline.tabular.sources.warehouse import engines, predicate
from dp_synth_pipeline.tabular.targets import sink

TEMPLATE = """# dp-synth docs lists the pages that are named here; dg check defs finds mistakes.
type: dp_synth_pipeline.SyntheticTable
attributes:
  source: data/{name}.csv          # .csv, .parquet, duckdb:///f.duckdb?table=s.t, or a warehouse: dp-synth docs warehouses
  account: {name}                  # a person opens it once: dp-synth ledger open {name} --epsilon 6 --delta 1e-5
  epsilon: 2.0                     # the most that one refresh may cost

  # -- who is protected, and what is known already (declared facts are public, and free) --
  # unit: {{column: person_id, max_rows: 4}}   # when one person has several rows
  # population: 12000              # the public number of units; otherwise it is counted with noise
  # nulls: keep                    # keep | mean | median | mode | drop; per column under `columns`
  # columns:                       # dp-synth docs tables; dp-synth schema infer writes them, charged
  #   sex: {{categories: [F, M]}}
  #   notes: {{kind: excluded}}
  # filter: "year >= 2020"         # only such rows are read
  # partitions: {{column: visit_date, cadence: daily, start: 2026-01-01}}   # dp-synth docs partitions

  # -- how it learns, and where --
  # training: {{purpose: analytics}}           # testing | analytics | machine_learning
  # compute: {{training: {{gpus: 1}}}}           # dp-synth docs executors

  # -- what is checked, and where analysts read it --
  # validation: {{rules: [start <= end], predict: outcome}}   # dp-synth docs checks
  # target: duckdb:///warehouse.duckdb?table=synthetic.{name}
  # schedule: 0 3 * * 1            # Mondays at three, in UTC; off until a person starts it
  # fresh_for: 8d
  # owners: [team:data]
"""


class SyntheticTableScaffolder(dg.Scaffolder):
    """Writes a commented `defs.yaml` that works once its source exists and its account is open."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Create the component's folder and file."""
        request.target_path.mkdir(parents=True, exist_ok=True)
        (request.target_path / "defs.yaml").write_text(TEMPLATE.format(name=request.target_path.name))


_TWINS: dict[type[BaseModel], type[BaseModel]] = {}


def _resolvable(annotation: Any) -> Any:
    """Return a field's type with each section in it replaced by a twin that Dagster makes a schema of, with templates."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in _TWINS:
            fields = {name: (_resolvable(f.annotation), f) for name, f in annotation.model_fields.items()}
            base: Any = create_model(annotation.__name__, __base__=annotation, **fields)  # type: ignore[call-overload]
            namespace = {"__module__": __name__, "__doc__": annotation.__doc__}
            _TWINS[annotation] = type(annotation.__name__, (base, dg.Resolvable), namespace)
        return _TWINS[annotation]
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(map(_resolvable, get_args(annotation)))]  # noqa: UP007
    if get_origin(annotation) is dict:
        return dict[tuple(map(_resolvable, get_args(annotation)))]  # type: ignore[misc]
    return annotation


class _AsWritten(BaseModel):
    """A table's attributes as its YAML has them, whatever they are."""

    model_config = ConfigDict(extra="allow")


def _check(table: TableSettings) -> None:
    """Refuse what takes more than the file to know: other files that it names, the ledger, what is installed.

    Raises:
        InvalidInput: with the field that it is about first.
    """
    checked_by(table)
    with about("source"):
        warehouse = engines.engine(table.source)
    if table.filter is not None and engines.runs_duckdb(warehouse):
        predicate.check_parsed(table.filter)
    for target in table.targets:
        with about("target"):
            sink.check_kind(target)
    executor_of(table.compute)
    if table.compute is not None:
        check_reachable(table.compute.targets, ledger_url())


_Fields: Any = create_model(
    "_Fields",
    __base__=TableSettings,
    **{name: (_resolvable(f.annotation), f) for name, f in TableSettings.model_fields.items()},  # type: ignore[call-overload]
)


@dg.scaffold_with(SyntheticTableScaffolder)
class SyntheticTable(dg.Component, _Fields, dg.Resolvable):
    """A differentially private synthetic copy of one table, refreshed under a privacy account that refuses to be overspent.

    Materializing the table's assets reads its source, spends at most `epsilon` of `account`, checks what it drew and
    replaces the published table. The account is opened by a person, never by the pipeline.
    """

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return what Dagster reads the YAML with: its schema is for editors, and the settings themselves judge."""
        strict = super().model()

        class Attributes(_AsWritten):
            @classmethod
            def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
                return strict.model_json_schema(*args, **kwargs)

        return Attributes

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> Any:
        """Return the component.

        Raises:
            InvalidInput: with each mistake, by line of the YAML.
        """
        try:
            table = cls(**context.resolve_value(model.model_extra or {}))
            _check(table)
        except (ValidationError, InvalidInput) as error:
            raise InvalidInput(explain(error, context.source_position_tree)) from None
        return table

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return all that the table needs, to lie beside whatever else the project has."""
        name = self.table or context.path.name
        try:
            settings = TableSettings(**{**self.model_dump(), "table": name})
        except ValidationError as error:  # the folder's name, which no line of the file holds
            raise InvalidInput(explain(error, None)) from None
        return build_synthetic_table(settings)

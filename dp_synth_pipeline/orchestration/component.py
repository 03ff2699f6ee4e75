"""`SyntheticTable` and `SyntheticDatabase` build the whole graph of one table, or of related ones, from one YAML file."""

from __future__ import annotations

import os
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.build import build_synthetic_database, build_synthetic_table
from dp_synth_pipeline.orchestration.checks import checked_by
from dp_synth_pipeline.orchestration.executors.compute import ComputeSettings
from dp_synth_pipeline.orchestration.executors.placing import check_reachable, executor_of
from dp_synth_pipeline.orchestration.mistakes import about, explain
from dp_synth_pipeline.orchestration.settings import (
    AnySettings,
    RelatedTablesSettings,
    TableSettings,
    is_independent,
)
from dp_synth_pipeline.relations.structure import Related, check_keys
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.synthesis import named_columns
from dp_synth_pipeline.synthesis.reading import unit_sentence
from dp_synth_pipeline.synthesis.settings import DEFAULT_DELTA
from dp_synth_pipeline.synthesis.store import ledger_url
from dp_synth_pipeline.tabular.sources.header import names_at_hand
from dp_synth_pipeline.tabular.sources.warehouse import engines
from dp_synth_pipeline.targets import sink, together

Settings = TypeVar("Settings", bound=BaseModel)

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
  # training: {{purpose: analytics}}           # testing | analytics | machine_learning; dp-synth docs training
  # compute: {{training: {{gpus: 1}}}}           # dp-synth docs executors

  # -- what is checked, and where analysts read it --
  # validation: {{rules: [start <= end], predict: outcome}}   # dp-synth docs checks
  # target: duckdb:///warehouse.duckdb?table=synthetic.{name}
  # schedule: 0 3 * * 1            # Mondays at three, in UTC; off until a person starts it
  # refresh: {{remember: true, epsilon: 0.3}}  # each after the first costs 0.3 and uses those before: dp-synth docs spending
  # fresh_for: 8d
  # owners: [team:data]
"""


DATABASE_TEMPLATE = """# dp-synth docs lists the pages that are named here; dg check defs finds mistakes.
type: dp_synth_pipeline.SyntheticDatabase
attributes:
  # A person opens the account once: dp-synth ledger open {name} --unit patient_id --epsilon 6 --delta 1e-5
  account: {name}
  epsilon: 3.0                     # the most that one refresh of all tables together may cost
  tables:                          # dp-synth docs databases
    patients:                      # the root has no parent: all that belongs to one row of it is protected together
      source: data/patients.parquet
      key: patient_id
    visits:
      source: data/visits.parquet
      key: visit_id
      parent: {{patient_id: patients}}
      order: visited               # a date, a time or a number
      max_rows: 30                 # rows kept of each patient
      # unique: [visited, ward]    # no two visits of a patient are the same in these
      # refers: {{hospital_id: hospitals}}
    # hospitals:                   # a table that everybody may see is copied as it is
    #   {{source: data/hospitals.csv, key: hospital_id, public: {{why: a public register, by: Ana}}}}

  # rules: [visits.visited >= patients.born]     # drawn rows keep them; a broken one blocks publication
  # shares: {{patients: 1, visits: 2}}            # by default by their numbers of columns
  # training: {{purpose: analytics}}             # testing | analytics | machine_learning
  # compute: {{training: {{gpus: 1}}}}             # dp-synth docs executors
  # target: duckdb:///warehouse.duckdb?table={name}.{table}
  # schedule: 0 3 * * 1            # Mondays at three, in UTC; off until a person starts it
  # refresh: {{remember: true, epsilon: 0.3}}  # each after the first costs 0.3, and uses the last: dp-synth docs databases
  # owners: [team:data]
"""


INDEPENDENT = (
    "{s.name}: a schedule refreshes it, and each refresh is by itself. With refresh: {{remember: true}} it would also use "
    "what was released before, which is free: {seen}. dp-synth ledger forecast {s.account} --every '{s.schedule}' "
    "--remember divides the account so, and prints the lines to write; refresh: {{remember: false}} keeps it as it is."
)
"""What is said of a schedule whose refreshes are independent."""

A_CENSUS = (
    "in a year of weekly refreshes of a census that stayed as it was, pairs of columns were 0.037 off, and 0.135 by "
    "themselves"
)
A_CLINIC = (
    "of a clinic that stayed as it was, pairs of columns were 0.056 off in visits and 0.048 in patients after five "
    "refreshes of epsilon 0.5, and 0.111 and 0.199 by themselves"
)
"""What remembering was seen to do to one table, and to related ones (benchmarks/README.md)."""


class _Scaffolder(dg.Scaffolder):
    """Writes a commented `defs.yaml` that works once its source exists and its account is open."""

    template: str

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Create the component's folder and file."""
        request.target_path.mkdir(parents=True, exist_ok=True)
        text = self.template.format(name=request.target_path.name, table="{table}")
        (request.target_path / "defs.yaml").write_text(text)


class SyntheticTableScaffolder(_Scaffolder):
    """Writes the `defs.yaml` of one table."""

    template = TEMPLATE


class SyntheticDatabaseScaffolder(_Scaffolder):
    """Writes the `defs.yaml` of related tables."""

    template = DATABASE_TEMPLATE


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
    """A component's attributes as its YAML has them, whatever they are."""

    model_config = ConfigDict(extra="allow")


VALIDATING = "DAGSTER_IS_DEFS_VALIDATION_CLI"
"""What Dagster sets while `dg check defs` looks at definitions. Only then are sources looked at, and of these their headers:
a server or a step that loads definitions must not fail since somebody is writing the file of one table."""


def _check(table: TableSettings) -> None:
    """Refuse what takes more than the file to know: other files that it names, the ledger, what is installed.

    Raises:
        InvalidInput: with the field that it is about first.
    """
    checked_by(table)
    if names := _source_names(table.source):
        named_columns.check_header(table, names)
    outputs = {f"generation.outputs.{name}.target": output.target for name, output in table.generation.outputs.items()}
    for field, target in [*(("target", target) for target in table.targets), *outputs.items()]:
        with about(field):
            sink.check_kind(target)
    _check_compute(table.compute)


def _check_database(database: RelatedTablesSettings) -> None:
    """Refuse of related tables what `_check` refuses of one."""
    for name, table in database.tables.items():
        with about(f"tables.{name}"):
            names = _source_names(table.source)
        if names and table.public is not None:
            check_keys(Related(name, key=table.key), names)
        elif names:
            check_keys(database.relations[name], names)
            with about(f"tables.{name}"):
                named_columns.check_header(database.member(name), names)
    if database.target is not None:
        for address in together.addresses(list(database.tables), database.target).values():
            sink.check_spared(address, database.read)
    _check_compute(database.compute)


def _source_names(source: str) -> tuple[str, ...]:
    """Return the columns of a source whose header may be looked at now."""
    with about("source"):
        engines.engine(source)
        return names_at_hand(source) if os.environ.get(VALIDATING) else ()


def _check_compute(compute: ComputeSettings | None) -> None:
    executor_of(compute)
    if compute is not None:
        check_reachable(compute.targets, ledger_url())


def _fields(settings: type[BaseModel]) -> Any:
    """Return settings as a model of whose fields Dagster makes a schema."""
    fields: dict[str, Any] = {name: (_resolvable(f.annotation), f) for name, f in settings.model_fields.items()}
    return create_model("_Fields", __base__=settings, **fields)


_TableFields: Any = _fields(TableSettings)
_DatabaseFields: Any = _fields(RelatedTablesSettings)


class _OfProject(dg.Component):
    """What the components have in common: their settings judge what the YAML says, and mistakes are told by line."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return what Dagster reads the YAML with: its schema is for editors, and the settings themselves judge."""
        strict = super().model()  # type: ignore[misc]

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
            component = cls(**context.resolve_value(model.model_extra or {}))
            component.check()
        except (ValidationError, InvalidInput) as error:
            raise InvalidInput(explain(error, context.source_position_tree)) from None
        return component

    def check(self) -> None:
        """Refuse what takes more than the file to know.

        Raises:
            InvalidInput: with the field that it is about first.
        """
        raise NotImplementedError


def _settled(settings: type[Settings], fields: dict[str, Any]) -> Settings:
    """Return settings; what may be wrong by now is the folder's name, which no line of the file holds."""
    try:
        return settings(**fields)
    except ValidationError as error:
        raise InvalidInput(explain(error, None)) from None


def _warn_of_large(settings: AnySettings) -> None:
    """Log what one refresh allows, if its epsilon is large."""
    if settings.epsilon is None:
        return
    delta = DEFAULT_DELTA if settings.delta == "auto" else float(settings.delta)
    if said := wording.large(f"One refresh of {settings.name}", settings.epsilon, delta):
        dg.get_dagster_logger().warning(said)


def _advise(settings: AnySettings, seen: str) -> None:
    """Log, where a person checks definitions, that refreshes by a schedule could use what was released before."""
    if os.environ.get(VALIDATING) and is_independent(settings):
        dg.get_dagster_logger().warning(INDEPENDENT.format(s=settings, seen=seen))


@dg.scaffold_with(SyntheticTableScaffolder)
class SyntheticTable(_OfProject, _TableFields, dg.Resolvable):
    """A differentially private synthetic copy of one table, refreshed under a privacy account that refuses to be overspent.

    Materializing the table's assets reads its source, spends at most `epsilon` of `account`, checks what it drew and
    replaces the published table. The account is opened by a person, never by the pipeline.
    """

    def check(self) -> None:
        _check(self)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return all that the table needs, to lie beside whatever else the project has."""
        fields = {**self.model_dump(exclude_unset=True), "table": self.table or context.path.name}
        settings = _settled(TableSettings, fields)
        if said := unit_sentence(settings, settings.columns):  # a run reads the names of all columns, and says so too
            dg.get_dagster_logger().warning(f"{settings.name}: {said}")
        _warn_of_large(settings)
        _advise(settings, A_CENSUS)
        return build_synthetic_table(settings)


@dg.scaffold_with(SyntheticDatabaseScaffolder)
class SyntheticDatabase(_OfProject, _DatabaseFields, dg.Resolvable):
    """Differentially private synthetic copies of related tables: all that belongs to one person is protected together.

    Materializing the assets reads every source, spends at most `epsilon` of `account` on all tables together, checks what
    it drew, and replaces all published tables at once.
    """

    def check(self) -> None:
        _check_database(self)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return all that the tables need, to lie beside whatever else the project has."""
        fields = {**self.model_dump(exclude_unset=True), "database": self.database or context.path.name}
        settings = _settled(RelatedTablesSettings, fields)
        _warn_of_large(settings)
        _advise(settings, A_CLINIC)
        return build_synthetic_database(settings)

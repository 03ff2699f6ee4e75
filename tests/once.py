"""What many tests would compute anew, though it is the same each time: Dagster's migrations, and compiled templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alembic.config import Config
from alembic.script import ScriptDirectory
from jinja2 import Environment

Put = Callable[[Any, str, Any], None]


def read_migrations_once(put: Put) -> None:
    """Read a folder of migrations once: Dagster reads its own anew for each of the hundreds of homes that tests make.

    Args:
        put: sets an attribute of an object.
    """
    read, known = ScriptDirectory.from_config, {}

    def from_config(config: Config) -> ScriptDirectory:
        where = config.get_main_option("script_location")
        return known.get(where) or known.setdefault(where, read(config))

    put(ScriptDirectory, "from_config", from_config)


def compile_templates_once(put: Put) -> None:
    """Compile a template once: Great Expectations makes an environment of its own for each page that it draws.

    Args:
        put: sets an attribute of an object.
    """
    make, known = Environment.compile, {}

    def compile_once(self: Environment, source: Any, name: Any = None, filename: Any = None, *rest: Any) -> Any:
        key = (source, name, filename, *rest)
        return known.get(key) or known.setdefault(key, make(self, *key))

    put(Environment, "compile", compile_once)

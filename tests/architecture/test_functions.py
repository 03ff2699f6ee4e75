"""No function is so long, or takes so much, that it cannot be read in one look."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dp_synth_pipeline"
LINES, PARAMETERS = 40, 7


def too_much(source: str) -> Iterator[str]:
    """Name each function with more lines or parameters than it may have; `self` and `cls` are not counted."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            parameters = sum(a is not None and a.arg not in ("self", "cls") for a in given)
            if lines > LINES or parameters > PARAMETERS:
                yield f"{node.name}: {lines} lines, {parameters} parameters"


def test_no_function_has_more_than_40_lines_or_7_parameters() -> None:
    guilty = [
        f"{path.relative_to(PACKAGE)}: {what}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for what in too_much(path.read_text())
    ]
    assert guilty == []


def test_a_function_that_is_too_long_or_takes_too_much_is_named() -> None:
    body = "    x = 0\n"
    assert list(too_much("def f(a, b, c, d, e, *g, h):\n" + body * 39)) == []
    assert list(too_much("class C:\n def f(self, a, b, c, d, e, g, *, h, **i):\n" + body)) == [
        "f: 2 lines, 8 parameters"
    ]
    assert list(too_much("async def f():\n" + body * 40)) == ["f: 41 lines, 0 parameters"]

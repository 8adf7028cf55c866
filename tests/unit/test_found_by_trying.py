"""Each test that `found_by_trying.md` names is there."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "found_by_trying.md"
FAULTS = 21
_ROW = re.compile(r"^\| (\d+) \| .+ \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`([^`:]+)::([^`]+)`")


@cache
def names_in(path: str) -> frozenset[str]:
    text = (ROOT / path).read_text()
    if path.endswith(".ts"):
        return frozenset(re.findall(r"^(?:test|describe)\(\"([^\"]+)\"", text, re.MULTILINE))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in ast.parse(text).body if isinstance(one, functions))


def missing(page: str) -> list[str]:
    return [
        f"{path}::{name}"
        for path, name in _TEST.findall(page)
        if not (ROOT / path).is_file() or name not in names_in(path)
    ]


def test_each_fault_has_tests_and_each_test_is_there() -> None:
    page = PAGE.read_text()
    rows = _ROW.findall(page)
    assert [int(number) for number, _ in rows] == list(range(1, FAULTS + 1))
    assert [number for number, tests in rows if not _TEST.search(tests)] == []
    assert missing(page) == []


def test_what_is_not_there_is_missed() -> None:
    renamed = "| 1 | it broke | `tests/unit/test_found_by_trying.py::test_that_was_renamed`, `tests/gone.py::test_it` |"
    assert len(missing(renamed)) == 2

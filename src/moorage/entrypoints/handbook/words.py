"""What the code says about its own names: the string below a field or an enumeration's member."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Sequence


def sentences_of(described: type) -> dict[str, str]:
    """By name, in the order of the source. Every name of the class body has one."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(described))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, following in zip(body.body, [*body.body[1:], None], strict=True):
        name = _name(statement)
        if name is not None:
            found[name] = _text(following)
    missing = [name for name, text in found.items() if not text]
    assert not missing, f"say what these mean, in {described.__module__}: {', '.join(missing)}"
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def code(text: object) -> str:
    return f"`{text}`"


def _name(statement: ast.stmt) -> str | None:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)) if "ClassVar" not in ast.unparse(statement.annotation):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) if name != "model_config":
            return name
    return None


def _text(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
    return ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

"""Roles of the version before run on the tables of the next one, so a migration that takes something away has to say so."""

import ast
import re

import pytest

from moorage.entrypoints.schema_repository import _VERSIONS, EXPECTED_VERSION, OLDEST_SERVED

BEFORE_UPGRADES = "0100"
"""Nobody ran upgrades with these, one role after another."""
TAKES_AWAY = {"drop_table", "drop_column", "rename_table"}
IN_SQL = re.compile(r"(?i)\b(DROP (TABLE|COLUMN)|RENAME (TO|COLUMN)|SET NOT NULL)\b")


def contracts(migration: str) -> bool:
    (upgrade,) = (
        one for one in ast.parse(migration).body if isinstance(one, ast.FunctionDef) and one.name == "upgrade"
    )
    calls = [one for one in ast.walk(upgrade) if isinstance(one, ast.Call)]
    return IN_SQL.search(ast.unparse(upgrade)) is not None or any(map(takes_away, calls))


def takes_away(call: ast.Call) -> bool:
    what = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    words = {one.arg: ast.unparse(one.value) for one in call.keywords}
    if what == "alter_column":
        return "new_column_name" in words or words.get("nullable") == "False"
    if what == "add_column":
        column = ast.unparse(call)
        return "nullable=False" in column and "server_default" not in column
    return what in TAKES_AWAY


def test_a_migration_that_takes_something_away_says_which_code_the_tables_serve() -> None:
    later = [file for file in _VERSIONS.glob("[0-9]*.py") if file.name[:4] > BEFORE_UPGRADES]
    taking = [file.name[:4] for file in later if contracts(file.read_text())]
    assert max(taking, default=BEFORE_UPGRADES) <= OLDEST_SERVED <= EXPECTED_VERSION


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ('op.drop_column("replicas", "port")', True),
        ('op.execute("ALTER TABLE replicas RENAME COLUMN port TO door")', True),
        ('op.alter_column("replicas", "port", nullable=False)', True),
        ('op.add_column("replicas", sa.Column("door", sa.Integer(), nullable=False))', True),
        (
            'op.add_column("replicas", sa.Column("door", sa.Integer(), nullable=False, server_default="0"))',
            False,
        ),
        ('op.add_column("replicas", sa.Column("door", sa.Integer(), nullable=True))', False),
        ('op.create_table("doors", sa.Column("id", sa.Text(), nullable=False))', False),
    ],
)
def test_what_takes_something_away(statement: str, expected: bool) -> None:
    text = (
        f"def upgrade() -> None:\n    {statement}\n\n\ndef downgrade() -> None:\n    op.drop_table('doors')\n"
    )
    assert contracts(text) is expected

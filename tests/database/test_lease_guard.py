"""The check that leaders write under their lease: statically over the whole source, and by catching one in the act."""

import ast
from pathlib import Path

import pytest
from sqlalchemy import text

import moorage
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.reconcile.lease import Lease, LeaseKeeper
from moorage.reconcile.status import record_run
from tests.lease_guard import guards, recorder, writes

SOURCE = Path(moorage.__file__).parent


@pytest.mark.parametrize(
    ("statement", "is_write"),
    [
        ("SELECT 1 FROM containers", False),
        ("SELECT id FROM containers WHERE id = $1 FOR UPDATE", False),
        ("SELECT id FROM containers FOR NO KEY UPDATE OF containers SKIP LOCKED", False),
        ("UPDATE containers SET state = $1", True),
        ("WITH locked AS (SELECT 1 FOR UPDATE) UPDATE containers SET changes = 1", True),
        ("INSERT INTO mails (id) VALUES ($1)", True),
        ("DELETE FROM mails", True),
        ("UPDATE leases SET expires_at = now()", False),
    ],
)
def test_what_writes(statement: str, is_write: bool) -> None:
    assert writes(statement) == is_write


def test_the_guard_is_recognised() -> None:
    assert guards("SELECT leases.token \nFROM leases \nWHERE leases.name = $1 FOR KEY SHARE")
    assert not guards("SELECT leases.name FROM leases FOR UPDATE")


async def unguarded_write(database: Database, lease: Lease) -> None:
    async with database.transaction() as session:
        await session.execute(text("UPDATE reconciler_status SET holder = 'nobody'"))


async def test_one_that_forgets_is_caught(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = await LeaseKeeper(database, "mail", "test", system_clock).acquire()
    assert lease is not None
    await record_run(database, lease, "test", None, 0)
    assert recorder.unguarded == []
    # As if it were a function of the product's.
    monkeypatch.setattr("tests.lease_guard._is_product", lambda path: path in (__file__,))
    await unguarded_write(database, lease)
    [caught] = recorder.unguarded
    assert caught.startswith("unguarded_write, in: UPDATE reconciler_status")
    recorder.unguarded.clear()


@pytest.mark.long
def test_every_transaction_of_whoever_has_a_lease_begins_with_it() -> None:
    """In every module that names the lease: tests reach what they run, this reads what is written."""
    found, transactions = [], 0
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        if path.parent.name == "reconcile" or "moorage.reconcile.lease" not in _imported(tree):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.AsyncWith) and any(_is_transaction(item) for item in node.items):
                transactions += 1
                if ".guard(" not in ast.unparse(node.body[0]):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert transactions > 25, "the check looks where nothing is"
    assert found == [], "a transaction that does not begin with `lease.guard`; for reads there is `reading()`"


def _imported(tree: ast.Module) -> set[str]:
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def _is_transaction(item: ast.withitem) -> bool:
    return ast.unparse(item.context_expr).endswith(".transaction()")

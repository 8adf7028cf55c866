"""The check of the order of locks itself: what it reads in a statement, and what it calls an inversion."""

import re
from pathlib import Path

import pytest

from tests.lock_order import (
    CAPACITY,
    ORDER,
    TURN,
    inserted_tables,
    inversion,
    locked_tables,
    turn_out_of_order,
    turn_taken,
)

CAPTURE = """
WITH bought AS (UPDATE hours SET state = 'paid' RETURNING *), account AS (
    UPDATE credit_accounts
    SET held_microusd = 0
)
SELECT id FROM bought
"""


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("SELECT id FROM containers WHERE id = $1", ()),
        ("SELECT id FROM containers WHERE id = $1 FOR UPDATE", ("containers",)),
        ("SELECT c.id FROM requests JOIN containers c ON true FOR NO KEY UPDATE OF containers", ("containers",)),
        ("SELECT token FROM leases FOR KEY SHARE", ()),
        ("UPDATE hours SET slot = 1", ("hours",)),
        ("DELETE FROM gateways WHERE id = $1", ("gateways",)),
        ("INSERT INTO hours (id) VALUES ($1)", ()),
        ("INSERT INTO replica_routes (id) VALUES ($1) ON CONFLICT DO UPDATE SET id = $1", ("replica_routes",)),
        (CAPTURE, ("hours", "credit_accounts")),
    ],
)  # fmt: skip
def test_what_a_statement_locks(statement: str, tables: tuple[str, ...]) -> None:
    assert locked_tables(statement) == tables


def test_what_a_statement_makes() -> None:
    assert inserted_tables("INSERT INTO containers (id) VALUES ($1)") == ("containers",)
    assert inserted_tables("INSERT INTO gateways (id) VALUES ($1) ON CONFLICT DO UPDATE SET id = $1") == ()


@pytest.mark.parametrize(
    ("held", "wanted", "before"),
    [
        ([], "containers", None),
        (["containers", CAPACITY], "credit_accounts", None),
        (["credit_accounts"], "containers", "credit_accounts"),
        (["credit_accounts"], CAPACITY, "credit_accounts"),
        (["containers", "credit_accounts"], "containers", None),
        (["replicas"], "containers", "replicas"),
        (["log_cursors"], "containers", "log_cursors"),
        (["hours"], "organizations", "hours"),
        (["containers", "replicas", "hours"], "credit_accounts", None),
        (["containers", "credit_accounts"], "replicas", None),
        (["hours"], "credit_accounts", None),
        (["mails"], "containers", None),
        (["organizations"], TURN, "organizations"),
        ([TURN], "organizations", None),
        (["leases", TURN], "credit_accounts", None),
        (["card_payments"], TURN, None),
    ],
)
def test_what_is_an_inversion(held: list[str], wanted: str, before: str | None) -> None:
    assert inversion(held, wanted) == before


def test_which_turn_a_statement_takes() -> None:
    taken = (
        "SELECT pg_advisory_xact_lock(hashtextextended($1::VARCHAR, $2::INTEGER)) AS pg_advisory_xact_lock_1"
    )
    assert turn_taken(taken, ("sign-in-code:ada@example.com", 0)) == "sign-in-code:ada@example.com"
    assert (
        turn_taken("SELECT pg_advisory_xact_lock(hashtext($1))", ("billing_documents",))
        == "billing_documents"
    )
    assert turn_taken("SELECT pg_advisory_xact_lock($1)", (17,)) is None
    assert turn_taken("SELECT $1", ("sign-in-code:ada@example.com",)) is None


@pytest.mark.parametrize(
    ("held", "wanted", "before"),
    [
        ([], "invitations:usr_a", None),
        (["sign-in-origin:1"], "sign-in-code:a", None),
        (["sign-in-code:a"], "sign-in-origin:1", "sign-in-code:a"),
        (["sign-in-code:a"], "sign-in-code:b", "sign-in-code:a"),
        (["sign-in-code:a"], "sign-in-code:a", None),
        (["too_many_projects:org_a"], "too_many_containers:prj_a", "too_many_projects:org_a"),
    ],
)
def test_turns_have_an_order_too(held: list[str], wanted: str, before: str | None) -> None:
    assert turn_out_of_order(held, wanted) == before


def test_the_page_says_the_same() -> None:
    page = (Path(__file__).parents[2] / "docs/locking.md").read_text()
    rows = re.findall(r"^\| \d+ \| `?([^`|]+?)`? \|", page, re.MULTILINE)
    assert tuple(rows) == ORDER

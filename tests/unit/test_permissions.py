"""The permission table as people read it: `docs/permissions.md` is what `permissions.TABLE` says."""

from pathlib import Path

from moorage.organizations.permissions import Permission, Role, allows, printed_table

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"


def test_page_is_the_table() -> None:
    """After a change: `python -m moorage.organizations.permissions > docs/permissions.md`, and read the difference."""
    assert PAGE.read_text() == printed_table()


def test_admin_may_whatever_a_user_may() -> None:
    for permission in Permission:
        assert allows(Role.ADMIN, permission) or not allows(Role.USER, permission)


def test_user_has_no_say_over_people_or_money() -> None:
    manages = ("organization.edit", "member.", "audit.", "project.create", "project.edit", "project.remove")
    for permission in Permission:
        if permission.value.startswith(manages):
            assert not allows(Role.USER, permission)

"""The permission table."""

from moorage.organizations.permissions import Permission, Role, allows


def test_admin_may_whatever_a_user_may() -> None:
    for permission in Permission:
        assert allows(Role.ADMIN, permission) or not allows(Role.USER, permission)


def test_user_has_no_say_over_people_or_money() -> None:
    manages = (
        "organization.edit",
        "organization.remove",
        "member.",
        "audit.",
        "project.create",
        "project.edit",
        "project.remove",
    )
    for permission in Permission:
        if permission.value.startswith(manages):
            assert not allows(Role.USER, permission)

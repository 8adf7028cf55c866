"""The whole permission table, on one page. Pure.

A `manage` key acts as a `user` of its project. The operator's flag opens `/operator` and nothing else: inside an
organization an operator is what their membership says.
"""

from enum import StrEnum


class Role(StrEnum):
    ADMIN = "admin"
    USER = "user"


class Permission(StrEnum):
    ORGANIZATION_VIEW = "organization.view"
    ORGANIZATION_EDIT = "organization.edit"
    MEMBER_VIEW = "member.view"
    MEMBER_MANAGE = "member.manage"
    AUDIT_VIEW = "audit.view"
    WEBHOOK_MANAGE = "webhook.manage"
    BILLING_VIEW = "billing.view"
    BILLING_MANAGE = "billing.manage"
    PROJECT_CREATE = "project.create"
    PROJECT_EDIT = "project.edit"
    PROJECT_REMOVE = "project.remove"
    PROJECT_VIEW = "project.view"
    CONTAINER_VIEW = "container.view"
    CONTAINER_MANAGE = "container.manage"
    API_KEY_VIEW = "api_key.view"
    API_KEY_MANAGE = "api_key.manage"


_USER = frozenset(
    {
        Permission.ORGANIZATION_VIEW,
        Permission.BILLING_VIEW,
        Permission.PROJECT_VIEW,
        Permission.CONTAINER_VIEW,
        Permission.CONTAINER_MANAGE,
        Permission.API_KEY_VIEW,
        Permission.API_KEY_MANAGE,
    }
)

TABLE: dict[Role, frozenset[Permission]] = {
    Role.ADMIN: frozenset(Permission),
    Role.USER: _USER,
}


def allows(role: Role, permission: Permission) -> bool:
    return permission in TABLE[role]


def printed_table() -> str:
    """The table as `docs/permissions.md` has it; a test compares them."""
    lines = [
        "# Who may do what",
        "",
        "Printed from `organizations/permissions.py`. A `user` has these rights in the projects they joined, an `admin`",
        "in all of the organization's. An API key with scope `manage` is a `user` of its one project.",
        "",
        f"| permission | {' | '.join(Role)} |",
        f"|---|{'---|' * len(Role)}",
    ]
    for permission in Permission:
        marks = " | ".join("✓" if allows(role, permission) else "–" for role in Role)
        lines.append(f"| `{permission}` | {marks} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(printed_table(), end="")

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
    PROJECT_CREATE = "project.create"
    PROJECT_EDIT = "project.edit"
    PROJECT_VIEW = "project.view"
    CONTAINER_VIEW = "container.view"
    CONTAINER_MANAGE = "container.manage"
    API_KEY_VIEW = "api_key.view"
    API_KEY_MANAGE = "api_key.manage"


_USER = frozenset(
    {
        Permission.ORGANIZATION_VIEW,
        Permission.PROJECT_VIEW,
        Permission.CONTAINER_VIEW,
        Permission.CONTAINER_MANAGE,
        Permission.API_KEY_VIEW,
        Permission.API_KEY_MANAGE,
    }
)

TABLE: dict[Role, frozenset[Permission]] = {
    Role.ADMIN: _USER | {Permission.ORGANIZATION_EDIT, Permission.PROJECT_CREATE, Permission.PROJECT_EDIT},
    Role.USER: _USER,
}


def allows(role: Role, permission: Permission) -> bool:
    return permission in TABLE[role]

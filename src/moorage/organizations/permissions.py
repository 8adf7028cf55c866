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
    """See the organization and its projects."""
    ORGANIZATION_EDIT = "organization.edit"
    """Rename the organization, change its settings."""
    ORGANIZATION_REMOVE = "organization.remove"
    """Delete the organization."""
    MEMBER_VIEW = "member.view"
    """See members and open invitations."""
    MEMBER_MANAGE = "member.manage"
    """Invite and remove members, change roles and projects."""
    AUDIT_VIEW = "audit.view"
    """Read the audit log."""
    WEBHOOK_MANAGE = "webhook.manage"
    """See, add, change and delete webhooks."""
    BILLING_VIEW = "billing.view"
    """See the balance, usage, invoices and receipts."""
    BILLING_MANAGE = "billing.manage"
    """Pay, save a card, set spending limits and automatic top-ups, change billing details."""
    MACHINE_VIEW = "machine.view"
    """See the machines that the organization lends."""
    MACHINE_MANAGE = "machine.manage"
    """Lend machines; pause, reclaim and withdraw them."""
    PROJECT_CREATE = "project.create"
    """Create projects."""
    PROJECT_EDIT = "project.edit"
    """Rename projects."""
    PROJECT_REMOVE = "project.remove"
    """Delete projects."""
    PROJECT_VIEW = "project.view"
    """See a project."""
    CONTAINER_VIEW = "container.view"
    """See containers, their logs, metrics, requests and history."""
    CONTAINER_MANAGE = "container.manage"
    """Create, change, start, stop, scale, update and delete containers."""
    API_KEY_VIEW = "api_key.view"
    """See API keys, without their secrets."""
    API_KEY_MANAGE = "api_key.manage"
    """Create, change, rotate and revoke API keys."""


_USER = frozenset(
    {
        Permission.ORGANIZATION_VIEW,
        Permission.BILLING_VIEW,
        Permission.MACHINE_VIEW,
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

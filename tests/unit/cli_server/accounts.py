"""Whose things they are: an organization, its members, its projects."""

from typing import Any

from cli_server.times import CREATED_AT

ORGANIZATION = {"id": "org_one", "name": "ada", "role": "admin", "created_at": CREATED_AT}


MEMBERS = [
    {"user_id": "usr_1", "email": "ada@example.com", "role": "admin", "joined_at": CREATED_AT},
    {"user_id": "usr_2", "email": "bea@example.com", "role": "user", "joined_at": CREATED_AT},
]


def project(project_id: str, name: str) -> dict[str, Any]:
    return {"id": project_id, "organization_id": "org_one", "name": name, "created_at": CREATED_AT}

"""People, organizations, projects."""

from typing import Any

from cli_server.accounts import MEMBERS, ORGANIZATION, project
from cli_server.answering import Answering
from cli_server.state import MANAGE_KEY, OPERATOR_KEY
from cli_server.times import CREATED_AT


class AccountRoutes(Answering):
    def _accounts(self, words: list[str], query: dict[str, str], body: Any) -> bool:
        """Whether it knows this path."""
        fake = self.moorage
        match words:
            case ["GET", "me"] if self.token == MANAGE_KEY:
                self._json(200, {"user": None, "project_id": "prj_one", "csrf_token": None})
            case ["GET", "me"]:
                user = {"id": "usr_1", "email": "ada@example.com", "is_operator": self.token == OPERATOR_KEY}
                self._json(200, {"user": user, "project_id": None, "csrf_token": None})
            case ["POST", "auth", "logout"]:
                self._json(204, None)
            case ["GET", "organizations"]:
                self._page([ORGANIZATION], query)
            case ["POST", "organizations"]:
                self._json(201, {**ORGANIZATION, "id": "org_two", "name": body["name"]})
            case ["GET", "organizations", "org_one", "deletion"]:
                self._json(200, fake.deletion)
            case ["DELETE", "organizations", "org_one"]:
                self._json(204, None)
            case ["GET", "organizations", "org_one", "members"]:
                self._page(MEMBERS, query)
            case ["PATCH", "organizations", "org_one", "members", "usr_2"]:
                self._json(200, {**MEMBERS[1], **body})
            case ["DELETE", "organizations", "org_one", "members", "usr_2"]:
                self._json(200, {"user_id": "usr_2", "revoked_key_ids": ["key_0"]})
            case ["GET", "organizations", "org_one", "invitations"]:
                self._page(fake.invitations, query)
            case ["POST", "organizations", "org_one", "invitations"]:
                made = {"id": "inv_1", "state": "pending", "created_at": CREATED_AT, "expires_at": CREATED_AT}
                fake.invitations.append({**made, **body})
                self._json(201, fake.invitations[-1])
            case ["DELETE", "organizations", "org_one", "invitations", "inv_1"]:
                fake.invitations.clear()
                self._json(204, None)
            case ["DELETE", "projects", project_id]:
                fake.projects = [one for one in fake.projects if one["id"] != project_id]
                self._json(204, None)
            case ["GET", "organizations", "org_one", "projects"]:
                self._page(fake.projects, query)
            case ["POST", "organizations", "org_one", "projects"]:
                fake.projects.append(project("prj_new", body["name"]))
                self._json(201, fake.projects[-1])
            case ["GET", "projects", project_id]:
                self._one([one for one in fake.projects if one["id"] == project_id])
            case _:
                return False
        return True

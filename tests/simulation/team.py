"""The people of an afternoon: who they are, what they read in their mail, which keys they have."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moorage.identity.sessions.repository import create_session
from moorage.identity.tokens import INVITATION_PREFIX, SESSION_PREFIX, new_token
from moorage.identity.users.repository import create_user
from moorage.kit.crypto import sha256
from moorage.kit.ids import UserId
from tests.simulation.world import KEYRING, World, new_database

NAMES = ("ann", "bob", "cid", "dee", "eve")
_USD = 1_000_000
_TOKEN = re.compile(rf"/invitations/({INVITATION_PREFIX}\w+)")


@dataclass
class Person:
    name: str
    user_id: str
    headers: dict[str, str] = field(default_factory=dict)
    """Of their session."""

    @property
    def email(self) -> str:
        return f"{self.name}@example.com"


@dataclass(frozen=True)
class Key:
    id: str
    text: str
    scope: str
    project_id: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.text}"}

    @property
    def hash_hex(self) -> str:
        return sha256(self.text).hex()


@dataclass
class Team:
    """An organization that one of them founded, with two projects."""

    world: World
    people: list[Person] = field(default_factory=list)
    id: str = ""
    projects: list[str] = field(default_factory=list)
    keys: dict[str, Key] = field(default_factory=dict)
    """By id: those that somebody was told, also when they are worth nothing any more."""

    @property
    def path(self) -> str:
        return f"/organizations/{self.id}"

    async def gather(self) -> None:
        """They sign up, and the first of them founds it."""
        world, database = self.world, new_database(self.world.server.dsn, 1)
        for name in NAMES:
            async with database.transaction() as session:
                user, _ = await create_user(session, f"{name}@example.com")
            self.people.append(Person(name, user.id))
            world.story.names[user.id] = name
        await database.close()
        for person in self.people:
            await self.sign_in(person)
        founder = self.people[0].headers
        self.id = (await self._made(founder, "/organizations", {"name": "team"}))["id"]
        credit = {"organization_id": self.id, "amount_microusd": 50 * _USD, "reason": "test"}
        await self._made(world.operator, "/operator/credits", credit)
        world.story.names[self.id] = "team"
        for name in ("first", "second"):
            self.projects.append((await self._made(founder, f"{self.path}/projects", {"name": name}))["id"])
            world.story.names[self.projects[-1]] = name

    async def _made(self, headers: dict[str, str], path: str, body: dict[str, Any]) -> Any:
        answer = await self.world.ask(headers, "POST", path, body)
        assert answer.status == 201, f"no faults yet: {path} {answer}"
        return answer.body

    async def sign_in(self, person: Person) -> None:
        """By a code from a mail, which is not what this is about."""
        token, database = new_token(SESSION_PREFIX), new_database(self.world.server.dsn, 1)
        async with database.transaction() as session:
            await create_session(session, UserId(person.user_id), sha256(token))
        await database.close()
        person.headers = {"Authorization": f"Bearer {token}"}

    def letters_to(self, person: Person) -> list[str]:
        """The tokens of invitations that they were sent, the last one first."""
        rows = self.world.query(
            "SELECT id, encode(sealed, 'hex') FROM mails ORDER BY created_at DESC, id DESC"
        )
        return list(_tokens(rows, person.email))

    def members(self) -> dict[str, str]:
        """By user: their role, as the database has it now."""
        found = f"SELECT user_id, role FROM organization_members WHERE organization_id = '{self.id}' ORDER BY user_id"
        return {user_id or "": role or "" for user_id, role in self.world.query(found)}

    def admins(self) -> list[Person]:
        roles = self.members()
        return [one for one in self.people if roles.get(one.user_id) == "admin"]

    def joined(self) -> list[Person]:
        roles = self.members()
        return [one for one in self.people if one.user_id in roles]

    def strangers(self) -> list[Person]:
        roles = self.members()
        return [one for one in self.people if one.user_id not in roles]


def _tokens(rows: list[tuple[str | None, ...]], email: str) -> Iterator[str]:
    for mail_id, sealed in rows:
        plain = json.loads(KEYRING.decrypt(bytes.fromhex(sealed or ""), f"mails.sealed:{mail_id}"))
        if plain["to"] == email and (found := _TOKEN.search(plain["text"])):
            yield found[1]

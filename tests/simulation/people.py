"""What the people of an afternoon do: they invite, join, change each other's roles, remove each other, leave, and make keys.

Most of it at once, from several clients: for a right that ends, what matters is what was under way. Everything is drawn before the
first question is asked, so that an event stays the same whatever is answered.
"""

import asyncio
import random
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.actors import Act, Users
from tests.simulation.invariants_deliveries import DeliveryInvariants
from tests.simulation.receivers import HOOKS_PORT
from tests.simulation.rights import ADMIN, NOTHING, USER, Rights
from tests.simulation.team import Key, Person, Team
from tests.simulation.world import Answer, World

_TRIES = 5
_MOMENTS_S = (0.0, 0.0, 0.001, 0.004, 0.01, 0.03, 0.1)


@dataclass
class People:
    world: World
    users: Users
    team: Team
    rights: Rights
    deliveries: DeliveryInvariants
    hooks: dict[str, Person] = field(default_factory=dict)
    """By path: who made the webhook that leads there."""
    asked: int = 0

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (5, "somebody joins", self.somebody_joins),
            (2, "invite", self.invite),
            (2, "an invitation is sent again or withdrawn", self.change_invitation),
            (3, "accepted while its maker goes", self.accepted_while_its_maker_goes),
            (2, "invited while they accept", self.invited_while_they_accept),
            (2, "accepted twice at once", self.accepted_twice),
            (3, "change a role", self.change_role),
            (2, "change projects", self.change_projects),
            (2, "remove a member", self.remove),
            (1, "leave", self.leave),
            (3, "admins remove each other", self.admins_remove_each_other),
            (5, "make a key", self.make_key),
            (3, "use a key", self.use_key),
            (2, "change a key", self.change_key),
            (2, "rotate a key", self.rotate_key),
            (3, "revoke a key", self.revoke_key),
            (4, "a key is made as its maker goes", self.key_made_as_its_maker_goes),
            (3, "a key is made with one that ends", self.key_made_with_one_that_ends),
            (1, "a project comes or goes", self.change_project),
            (1, "names change", self.rename),
            (2, "make a webhook in the team", self.make_webhook),
        ]

    # Who joins.

    async def somebody_joins(self) -> None:
        """Invited and accepted, so that there are people to do the rest."""
        role = self.world.acting.choice(("user", "user", "admin", "admin"))
        person, admin = self._one_of(self.team.strangers()), self._one_of(self.team.admins())
        if person is not None and admin is not None:
            await self._invite(admin, person, role)
            await self._accept(person)

    async def invite(self) -> None:
        role, by = self.world.acting.choice(("user", "admin")), self._one_of(self.team.joined())
        person = self.world.acting.choice(self.team.people)
        if by is not None:
            await self._invite(by, person, role)

    async def change_invitation(self) -> None:
        verb, admin = self.world.acting.choice(("resend", "withdraw")), self._one_of(self.team.admins())
        opened = self.world.query(
            f"""SELECT id FROM invitations WHERE organization_id = '{self.team.id}' AND closed_at IS NULL
            ORDER BY created_at, id"""
        )
        if admin is None or not opened:
            return await self.invite()
        path = f"{self.team.path}/invitations/{self.world.acting.choice(opened)[0]}"
        if verb == "resend":
            await self.ask(admin, "send an invitation again", "POST", f"{path}/resend", None, ADMIN)
        else:
            await self.ask(admin, "withdraw an invitation", "DELETE", path, None, ADMIN)
        return None

    async def accepted_while_its_maker_goes(self) -> None:
        chance = self.world.acting
        role, how, moments = chance.choice(("user", "admin")), chance.random(), self._moments(2)
        person, (maker, other) = self._one_of(self.team.strangers()), self._some_of(self.team.admins(), 2)
        if person is None or maker is None or other is None:
            return await self._more_admins()
        await self._invite(maker, person, role)
        ending = (
            self._remove(other, maker) if how < 0.5 else self._change(other, maker, {"role": "user"}, USER)
        )
        return await self._at_once(moments, self._accept(person), ending)

    async def invited_while_they_accept(self) -> None:
        """By another admin, whose page does not show the first invitation, and who does not give up."""
        chance, (maker, other) = self.world.acting, self._some_of(self.team.admins(), 2)
        moments = [0.0, *(chance.uniform(0.0, 0.03) for _ in range(_TRIES))]
        person = self._one_of(self.team.strangers())
        if person is None or maker is None:
            return await self._more_admins()
        await self._invite(maker, person, "user")
        again = [self._invite(other or maker, person, "admin") for _ in range(_TRIES)]
        await self._at_once(moments, self._accept(person), *again)
        return None

    async def accepted_twice(self) -> None:
        """By two clients of one person, and by somebody who found the link."""
        moments, admin = self._moments(3), self._one_of(self.team.admins())
        person, thief = self._some_of(self.team.strangers(), 2)
        if person is None or admin is None:
            return
        await self._invite(admin, person, "user")
        letters = self.team.letters_to(person)[:1]
        stolen = [self._accept(thief, letters)] if thief is not None else []
        await self._at_once(moments, self._accept(person, letters), self._accept(person, letters), *stolen)

    async def _invite(self, by: Person, person: Person, role: str) -> None:
        body = {
            "email": person.email,
            "role": role,
            "project_id": self.world.acting.choice(self.team.projects),
        }
        words = f"invite {person.name} as {role}"
        await self.ask(by, words, "POST", f"{self.team.path}/invitations", body, ADMIN)

    async def _accept(self, person: Person, letters: list[str] | None = None) -> None:
        letters = self.team.letters_to(person)[:1] if letters is None else letters
        for token in letters:
            most = self.rights.bound(person.name).most
            with self.rights.raising(person.name):
                answer = await self.ask(
                    person, "accept an invitation", "POST", f"/invitations/{token}/accept", None
                )
            if answer.status == 200:
                self.world.story.count("invitation accepted")
                self.rights.accept(token, f"{person.name} accepts an invitation")
            elif answer.status == 404 and self.rights.moment(person.name) is not None:
                self.rights.bound(person.name).most = most

    # Who goes.

    async def change_role(self) -> None:
        role, (admin, other) = (
            self.world.acting.choice(("admin", "user")),
            self._some_of(self.team.admins(), 2),
        )
        person = self._one_of(self.team.joined()) if role == "admin" else other
        if admin is None or person is None:
            return await self._more_admins()
        await self._change(admin, person, {"role": role}, USER if role == "user" else None)
        return None

    async def change_projects(self) -> None:
        admin, person = self._one_of(self.team.admins()), self._one_of(self.team.joined())
        some = self.world.acting.choice(
            ([], self.team.projects[:1], self.team.projects[-1:], self.team.projects)
        )
        if admin is not None and person is not None:
            await self._change(admin, person, {"project_ids": some}, None)

    async def remove(self) -> None:
        admin, person = self._one_of(self.team.admins()), self._one_of(self.team.joined())
        keeps = self.world.acting.random() < 0.1
        if admin is not None and person is not None:
            await self._remove(admin, person, keeps_keys=keeps)

    async def leave(self) -> None:
        if (person := self._one_of(self.team.joined())) is not None:
            await self._remove(person, person)

    async def admins_remove_each_other(self) -> None:
        """Or leave, at the same moment: one has to stay."""
        chance, moments = self.world.acting, self._moments(2)
        how, (one, other) = chance.choice(("remove", "leave", "demote")), self._some_of(self.team.admins(), 2)
        if one is None or other is None:
            return await self._more_admins()
        if how == "remove":
            both = self._remove(one, other), self._remove(other, one)
        elif how == "leave":
            both = self._remove(one, one), self._remove(other, other)
        else:
            both = (
                self._change(one, one, {"role": "user"}, USER),
                self._change(other, other, {"role": "user"}, USER),
            )
        return await self._at_once(moments, *both)

    async def _more_admins(self) -> None:
        """There are too few for what was to be done."""
        person, admin = self._one_of(self.team.strangers()), self._one_of(self.team.admins())
        if person is not None and admin is not None:
            await self._invite(admin, person, "admin")
            await self._accept(person)

    async def _change(self, by: Person, person: Person, patch: dict[str, Any], to: int | None) -> None:
        path = f"{self.team.path}/members/{person.user_id}"
        words = f"give {person.name} {patch}"
        if patch.get("role") == "admin":
            with self.rights.raising(person.name):
                await self.ask(by, words, "PATCH", path, patch, ADMIN)
            return
        since = self.rights.moment(person.name)
        answer = await self.ask(by, words, "PATCH", path, patch, ADMIN)
        if answer.status == 200 and to is not None:
            self.world.story.count("role taken")
            self._ended(person, to, since)

    async def _remove(self, by: Person, person: Person, *, keeps_keys: bool = False) -> None:
        since = self.rights.moment(person.name)
        if keeps_keys:
            self.rights.keeps_keys.add(person.user_id)
        path = f"{self.team.path}/members/{person.user_id}" + ("?revoke_keys=false" if keeps_keys else "")
        words = "leave" if by is person else f"remove {person.name}"
        answer = await self.ask(by, words, "DELETE", path, None, USER if by is person else ADMIN)
        if answer.status != 200:
            return
        self.world.story.count("member left" if by is person else "member removed")
        for key_id in answer.body["revoked_key_ids"]:
            self.rights.key_ended(key_id)
        if self._ended(person, NOTHING, since):
            await self._try_everything(person)

    def _ended(self, person: Person, to: int, since: int | None) -> bool:
        sure = self.rights.lowered(person.name, to, since)
        for path, maker in self.hooks.items():
            if maker is person and sure:
                self.deliveries.ended_at_s[path] = self.world.now_s()
        return sure

    async def _try_everything(self, person: Person) -> None:
        """Somebody who was removed, with the session from before and with a new one; and with the keys from before."""
        before = person.headers
        await self.team.sign_in(person)
        team, project = self.team, self.team.projects[0]
        for headers in (before, person.headers):
            await self.ask(person, "look into the team", "GET", team.path, None, USER, headers)
            await self.ask(
                person, "look at containers", "GET", f"/projects/{project}/containers", None, USER, headers
            )
        await self.ask(person, "make a key", "POST", f"/projects/{project}/api-keys", {"name": "late"}, USER)
        invitation = {"email": "late@example.com", "role": "admin"}
        await self.ask(person, "invite somebody", "POST", f"{team.path}/invitations", invitation, ADMIN)
        for key_id in sorted(self.rights.revoked)[-2:]:
            if key_id in team.keys:
                await self._use(team.keys[key_id])

    # Keys.

    async def make_key(self) -> None:
        scope = self.world.acting.choice(("inference", "manage", "manage"))
        if (person := self._one_of(self.team.joined())) is not None:
            await self._make_key(person, scope)

    async def use_key(self) -> None:
        if (key := self._some_key()) is not None:
            await self._use(key)

    async def change_key(self) -> None:
        change = self.world.acting.choice(({"disabled": True}, {"disabled": False}, {"name": "renamed"}))
        key, person = self._some_key(), self._one_of(self.team.joined())
        if key is not None and person is not None:
            await self.ask(person, f"change {key.id}: {change}", "PATCH", f"/api-keys/{key.id}", change, USER)

    async def rotate_key(self) -> None:
        key, person = self._some_key(), self._one_of(self.team.joined())
        overlap_s = self.world.acting.choice((0, 3600))
        if key is not None and person is not None:
            await self._rotate(person, key, overlap_s)

    async def revoke_key(self) -> None:
        key, person = self._some_key(), self._one_of(self.team.joined())
        if key is not None and person is not None:
            await self._revoke(person, key)

    async def key_made_as_its_maker_goes(self) -> None:
        chance, moments = self.world.acting, self._moments(3)
        how, rotates, scope = chance.random(), chance.random() < 0.4, chance.choice(("inference", "manage"))
        (admin, maker), key = self._some_of(self.team.admins(), 2), self._some_key()
        if chance.random() < 0.5:
            maker = self._one_of([one for one in self.team.joined() if one is not admin]) or maker
        if admin is None or maker is None or maker is admin:
            return await self._more_admins()
        if how < 0.5:
            ending = self._remove(admin, maker)
        elif how < 0.7:
            ending = self._remove(maker, maker)
        else:
            ending = self._change(admin, maker, {"role": "user", "project_ids": []}, USER)
        making = self._rotate(maker, key, 0) if rotates and key is not None else self._make_key(maker, scope)
        return await self._at_once(moments, making, ending, self._make_key(maker, scope))

    async def key_made_with_one_that_ends(self) -> None:
        """It is revoked, or whoever made it is removed."""
        chance, moments = self.world.acting, self._moments(2)
        is_revoked = chance.random() < 0.5
        (admin, maker) = self._some_of(self.team.admins(), 2)
        if admin is None or maker is None:
            return await self._more_admins()
        key = await self._make_key(maker, "manage")
        if key is None:
            return None
        ending = self._revoke(admin, key) if is_revoked else self._remove(admin, maker)
        await self._at_once(moments, self._make_key_with(key), ending)
        return await self._use(key) if key.id in self.rights.revoked else None

    async def _make_key(self, person: Person, scope: str) -> Key | None:
        project_id = self.world.acting.choice(self.team.projects)
        body = {"name": "key", "scope": scope}
        path = f"/projects/{project_id}/api-keys"
        return self._learnt(await self.ask(person, f"make a key for {scope}", "POST", path, body, USER))

    async def _make_key_with(self, key: Key) -> Key | None:
        path = f"/projects/{key.project_id}/api-keys"
        return self._learnt(
            await self._ask_with(key, "make a key with a key", "POST", path, {"name": "child"})
        )

    async def _rotate(self, person: Person, key: Key, overlap_s: int) -> None:
        path, body = f"/api-keys/{key.id}/rotate", {"overlap_s": overlap_s}
        self._learnt(await self.ask(person, f"rotate {key.id}", "POST", path, body, USER))

    async def _revoke(self, person: Person, key: Key) -> None:
        answer = await self.ask(person, f"revoke {key.id}", "DELETE", f"/api-keys/{key.id}", None, USER)
        if answer.status == 204:
            self.world.story.count("key revoked")
            self.rights.key_ended(key.id)

    async def _use(self, key: Key) -> None:
        await self._ask_with(key, "look at containers", "GET", f"/projects/{key.project_id}/containers", None)

    def _learnt(self, answer: Answer) -> Key | None:
        if answer.status != 201:
            return None
        body = answer.body
        key = self.team.keys[body["id"]] = Key(body["id"], body["key"], body["scope"], body["project_id"])
        self.world.story.names[key.id] = f"key{len(self.team.keys)}"
        self.world.story.count("key made")
        return key

    # The rest.

    async def change_project(self) -> None:
        comes, admin = self.world.acting.random() < 0.5, self._one_of(self.team.admins())
        if admin is None:
            return
        if comes or len(self.team.projects) < 2:
            body = {"name": f"project {self.asked}"}
            answer = await self.ask(
                admin, "make a project", "POST", f"{self.team.path}/projects", body, ADMIN
            )
            if answer.status == 201:
                self.team.projects.append(answer.body["id"])
                self.world.story.names[answer.body["id"]] = body["name"]
            return
        project_id = self.team.projects[-1]
        answer = await self.ask(
            admin, f"remove {project_id}", "DELETE", f"/projects/{project_id}", None, ADMIN
        )
        if answer.status == 204:
            self.team.projects.remove(project_id)
            for key in self.team.keys.values():
                if key.project_id == project_id:
                    self.rights.key_ended(key.id)

    async def rename(self) -> None:
        moments, (one, other) = self._moments(2), self._some_of(self.team.admins(), 2)
        if one is not None:
            project = f"/projects/{self.team.projects[0]}"
            await self._at_once(
                moments,
                self.ask(one, "rename the team", "PATCH", self.team.path, {"name": "crew"}, ADMIN),
                self.ask(
                    other or one, "rename a project", "PATCH", project, {"name": f"p{self.asked}"}, ADMIN
                ),
            )

    async def part(self) -> None:
        self.world.acting = random.Random("nothing is drawn any more")
        admin = self.team.admins()[0]
        for person in self.team.joined():
            if person is not admin:
                await self._remove(admin, person)
        keys = self.world.query("SELECT id FROM api_keys WHERE revoked_at IS NULL ORDER BY id")
        for (key_id,) in keys:
            await self.ask(admin, f"revoke {key_id}", "DELETE", f"/api-keys/{key_id}", None, USER)

    async def make_webhook(self) -> None:
        admin = self._one_of(self.team.admins())
        if admin is None or "deliveries" not in self.world.parts:
            return
        path = f"/team{len(self.hooks)}"
        body = {"url": f"http://127.0.0.1:{HOOKS_PORT}{path}", "events": ["*"]}
        where = f"{self.team.path}/webhooks"
        answer = await self.ask(admin, f"make a webhook to {path}", "POST", where, body, ADMIN)
        if answer.status == 201:
            self.hooks[path] = admin

    async def ask(
        self,
        person: Person,
        words: str,
        method: str,
        path: str,
        body: Any,
        needs: int = NOTHING,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """`needs`: the least role that may do this. Who is signed out signs in again."""
        self.asked += 1
        since, most = self.rights.moment(person.name), self.rights.bound(person.name).most
        answer = await self.world.ask(headers or person.headers, method, path, body)
        if answer.status == 401 and headers is None:
            await self.team.sign_in(person)
            answer = await self.world.ask(person.headers, method, path, body)
        self.rights.judge(person.name, since, most, needs, words, answer.status)
        return self.users.told(person.name, words, answer)

    async def _ask_with(self, key: Key, words: str, method: str, path: str, body: Any) -> Answer:
        was_revoked = key.id in self.rights.revoked
        answer = await self.world.ask(key.headers, method, path, body)
        self.rights.judge_key(key.id, was_revoked, words, answer.status)
        self.world.story.count("key used" if answer.status in (200, 201) else "key refused")
        return self.users.told(self.world.story.names.get(key.id, key.id), words, answer)

    async def _at_once(self, moments_s: list[float], *acts: Awaitable[Any]) -> None:
        async def later(moment_s: float, act: Awaitable[Any]) -> None:
            await asyncio.sleep(moment_s)
            await act

        await asyncio.gather(*(later(*one) for one in zip(moments_s, acts, strict=False)))

    def _moments(self, count: int) -> list[float]:
        return [self.world.acting.choice(_MOMENTS_S) for _ in range(count)]

    def _one_of(self, people: list[Person]) -> Person | None:
        return self._some_of(people, 1)[0]

    def _some_of(self, people: list[Person], count: int) -> list[Person | None]:
        """So many, or as many as there are."""
        drawn = self.world.acting.sample(people, min(count, len(people)))
        return [*drawn, *[None] * (count - len(drawn))]

    def _some_key(self) -> Key | None:
        return self.world.acting.choice(list(self.team.keys.values())) if self.team.keys else None

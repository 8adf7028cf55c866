"""An owner of a lent machine who means harm, somebody else who lends one too, and a tenant: what attempts are made with, and what must
not have changed after them. One installation for all attempts of a module."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from api_support import ANONYMOUS, KEYRING, Api, Asker, Home, bearer, join_body, new_home

from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import bootstrap
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.machines.reconciler import MachinesReconciler
from moorage.machines.service import say
from moorage.machines.states import Happening, Speaker
from moorage.reconcile.lease import Lease, LeaseKeeper

VICTIMS_WORDS = (
    "victim@example.com",
    "victims-rack",
    "victims-chat",
    "canary-8281",
    "DE02120300000000202051",
)
_numbers = itertools.count(1)


@dataclass
class Scene:
    api: Api
    owner: Home
    """Who means harm."""
    victim: Home
    """Who lends a machine and has a container, which runs on both machines."""
    mine: str
    theirs: str
    operators: str
    container_id: str
    brought: dict[str, Any]
    """With which `mine` joined: its real keys."""
    answers: list[httpx.Response] = field(default_factory=list)

    @property
    def machine(self) -> Asker:
        """As the machine itself speaks."""
        return bearer("machine", self.brought["secret"])

    async def ask(self, asker: Asker, method: str, path: str, **how: Any) -> httpx.Response:
        answer = await self.api.ask(asker, method, f"/api/v1{path}", **how)
        self.answers.append(answer)
        return answer

    async def post(
        self, path: str, body: Any = None, asker: Asker | None = None, **how: Any
    ) -> httpx.Response:
        """As the owner, unless another asks."""
        return await self.ask(asker or self.owner.admin, "POST", path, json=body, **how)

    async def lend(self) -> dict[str, Any]:
        answer = await self.post(f"/organizations/{self.owner.organization_id}/machines", {})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def says(self, happening: Happening, speaker: Speaker = Speaker.MOORAGE) -> None:
        """About `mine`."""
        async with self.api.database.transaction() as session:
            settings = self.api.settings
            await say(session, KEYRING, settings, self.mine, happening, speaker=speaker, actor_id="system")

    async def state(self) -> tuple[str, str | None]:
        ((state, by),) = await self.api.rows(
            "SELECT state, stopped_by FROM machines WHERE id = :id", id=self.mine
        )
        return state, by

    async def looks(self) -> None:
        """Whoever looks after machines does, at one of somebody else's."""
        reconciler = MachinesReconciler(self.api.database, KEYRING, self.api.settings, system_clock)
        await reconciler.reconcile(self.theirs, await self._lease())

    async def _lease(self) -> Lease:
        name = f"machines-{next(_numbers)}"
        lease = await LeaseKeeper(self.api.database, name, "test", system_clock).acquire()
        assert lease is not None
        return lease

    async def others(self, queries: Sequence[str]) -> list[Any]:
        """All that is not the attacker's: machines, what runs, whom the tunnel lets in, and money."""
        found = []
        mine = {"mine": self.mine, "owner": self.owner.organization_id, "user": self.owner.user_id}
        for query in queries:
            used = {name: value for name, value in mine.items() if f":{name}" in query}
            found += await self.api.rows(query, **used)
        return found


_MONEY = (
    "SELECT account, sum(amount_microusd) FROM ledger_entries GROUP BY account ORDER BY account",
    "SELECT id, state FROM payouts ORDER BY id",
    "SELECT machine_id, reason FROM machine_voids",
)
_OTHERS = (
    *_MONEY,
    """SELECT id, name, state, standing, stopped_by, paused_until, public_key, secret_hash, sealed_credential, address,
    owner_organization_id, infrastructure FROM machines WHERE id <> :mine AND owner_organization_id IS DISTINCT FROM :owner
    ORDER BY id""",
    "SELECT id, address, public_key, endpoint, error FROM tunnel_hubs",
    "SELECT id, state, desired_state, settings::text, secrets FROM containers ORDER BY id",
    "SELECT id, engine, node, state, host, host_port FROM replicas ORDER BY id",
    "SELECT organization_id, sealed_details FROM payout_accounts WHERE organization_id <> :owner",
    "SELECT * FROM organization_members WHERE organization_id <> :owner AND user_id <> :user ORDER BY 1, 2",
    "SELECT machine_id FROM machine_join_tokens t JOIN machines m ON m.id = machine_id WHERE m.owner_organization_id <> :owner",
)


@pytest.fixture(scope="module", name="hostile_dsn")
def hostile_dsn_fixture(postgres_dsn: str) -> Iterator[str]:
    """One database for all attempts of a module: to make one takes as long as an attempt."""

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(postgres_dsn.replace("/moorage?", "/postgres?"))
        await connection.execute(statement)
        await connection.close()

    name = f"hostile_{next(_numbers)}"
    asyncio.run(execute(f"CREATE DATABASE {name} TEMPLATE moorage"))
    yield postgres_dsn.replace("/moorage?", f"/{name}?")
    asyncio.run(execute(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(name="scene")
async def scene_fixture(hostile_dsn: str, short_folder: Path) -> AsyncIterator[Scene]:
    database = Database(hostile_dsn, pool_size=5)
    settings = Settings(
        api_share_percent=100,
        home=short_folder,
        public_url="https://cloud.moorage.example",
        community_machines=True,
        model_hub="",
    )
    async with database.transaction() as session:
        await bootstrap(session, settings)
    api = Api(create_app(settings, database, KEYRING), database, settings)
    yield await _scene(api)
    await database.close()


async def _scene(api: Api) -> Scene:
    """With people and machines of its own: what one attempt leaves behind is in no other's way."""
    number = next(_numbers)
    await api.execute("DELETE FROM tunnel_hubs")
    await api.new_hub()
    owner = await new_home(api, f"owner{number}@example.com")
    victim = await new_home(api, f"{number}.victim@example.com")
    community = {"infrastructure": "community", "standing": "probation"}
    theirs = await api.new_machine(
        "probation", **community, owner_organization_id=victim.organization_id, name=f"victims-rack-{number}"
    )
    operators = await api.new_machine(name=f"headquarters-{number}")
    added = (await api.post(owner.admin, f"/organizations/{owner.organization_id}/machines", {})).json()
    brought = join_body(added["token"])
    brought["facts"]["runtime"] = "runsc"
    joined = await api.post(ANONYMOUS, "/machines/join", brought)
    assert joined.status_code == 200, joined.text
    container_id = await api.new_container(victim.project_id, f"victims-chat-{number}")
    await api.execute(
        "UPDATE containers SET settings = settings || CAST(:more AS jsonb) WHERE id = :id",
        more=json.dumps({"start_command": "serve --token=canary-8281"}),
        id=container_id,
    )
    for machine in (added["id"], theirs):
        replica = await api.new_replica(container_id, node=machine)
        await api.execute(
            "UPDATE replicas SET engine = :engine, slot = :slot WHERE id = :id",
            engine=machine,
            slot=int(machine == added["id"]),
            id=replica,
        )
    scene = Scene(api, owner, victim, added["id"], theirs, operators, container_id, brought)
    await scene.says(Happening.ANSWERED)
    await scene.says(Happening.VERIFIED)
    return scene


@dataclass(frozen=True)
class Attempt:
    name: str
    play: Callable[[Scene], Awaitable[None]]
    """Asserts what is particular about it. Whatever it was answered is looked at afterwards."""
    allowed: int = 0
    """How many answers may be other than a refusal."""

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


async def play(scene: Scene, attempt: Attempt, *, money_moves: bool = False) -> None:
    """`money_moves`: the attempt begins with earnings, so the ledger is looked at by the attempt itself."""
    queries = [query for query in _OTHERS if not (money_moves and query in _MONEY)]
    before = await scene.others(queries)
    await attempt.play(scene)
    assert await scene.others(queries) == before
    not_refused = [answer for answer in scene.answers if not 400 <= answer.status_code < 500]
    assert len(not_refused) <= attempt.allowed, [
        (answer.request.url.path, answer.text) for answer in not_refused
    ]
    for answer in scene.answers:
        assert not any(word in answer.text for word in VICTIMS_WORDS), answer.text

"""Secrets stay secret: canaries are planted wherever a secret can be, and looked for wherever it must not be."""

import base64
from pathlib import Path
from typing import Any

import pytest
from api_support import SMALL, Api, Home, container_body, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import KEYRING, Machine, WatchedEngine, World, driven, eventually
from sqlalchemy import select

from moorage.catalog.repository import replace_nodes
from moorage.containers.models import ContainerRow
from moorage.containers.secrets import seal, seal_draft, unseal, unseal_draft
from moorage.containers.spec import ContainerSecrets
from moorage.gateway.repository import register_gateway
from moorage.kit.crypto import Keyring
from moorage.kit.errors import DecryptionError
from moorage.kit.ids import GatewayId, new_container_id
from moorage.organizations.models import ProjectRow

CANARIES = {
    "environment": "canary-environment-7f3a",
    "registry password": "canary-registry-91c2",
    "draft's environment": "canary-draft-55d0",
    "edited environment": "canary-edit-0b6e",
    "refused environment": "canary-refused-e8a4",
}
LOCAL = {"provider": "local"}


async def world_of(api: Api, home: Home) -> World:
    machine = Machine()
    async with api.database.transaction() as session:
        await replace_nodes(session, await WatchedEngine(machine).capacity())
        await register_gateway(session, GatewayId("gtw_test"))
        query = select(ProjectRow).where(ProjectRow.id == home.project_id)
        project = (await session.execute(query)).scalar_one()
    return World(api.database, project, machine)


async def plant(api: Api, home: Home) -> tuple[str, str]:
    """A local container with a secret environment, and a stopped one with credentials, an edit and a draft."""
    path = f"/projects/{home.project_id}/containers"
    body = container_body(
        "local", image="local/chat:latest", registry=LOCAL, env={"TOKEN": CANARIES["environment"]}
    )
    local = (await api.post(home.admin, path, body)).json()["id"]
    registry = {"provider": "github", "username": "ada", "password": CANARIES["registry password"]}
    private = (await api.post(home.admin, path, container_body("private", registry=registry))).json()["id"]
    await api.post(home.admin, f"/containers/{private}/stop")
    await api.execute("UPDATE containers SET state = 'STOPPED' WHERE id = :id", id=private)
    edit = {"env": {"EDITED": CANARIES["edited environment"]}}
    assert (await api.ask(home.admin, "PATCH", f"/api/v1/containers/{private}", json=edit)).status_code == 200
    draft = {"env": {"DRAFT": CANARIES["draft's environment"]}}
    saved = await api.ask(home.admin, "PUT", f"/api/v1/containers/{private}/draft", json=draft)
    assert saved.status_code == 200, saved.text
    wrong: list[dict[str, Any]] = [
        {"env": {"not a name": CANARIES["refused environment"]}},
        {"env": {"TOKEN": CANARIES["refused environment"] + "\x00"}},
        {"env": {"TOKEN": CANARIES["refused environment"] + "x" * 40_000}},
        {"registry": {**registry, "username": None, "password": CANARIES["refused environment"]}},
        {"registry": {**LOCAL, "username": "ada", "password": CANARIES["refused environment"]}},
    ]
    for changes in wrong:
        assert (await api.post(home.admin, path, container_body("wrong", **changes))).status_code == 422
    return local, private


async def look_everywhere(api: Api, home: Home, *container_ids: str) -> None:
    for container_id in container_ids:
        for part in ("", "/replicas", "/activity", "/draft", "/logs"):
            assert (await api.get(home.admin, f"/containers/{container_id}{part}")).status_code == 200
    await api.get(home.admin, f"/projects/{home.project_id}/containers")
    await api.get(api.operator, "/operator/status")


async def crash(api: Api, home: Home, container_id: str) -> None:
    """A mistake of ours in the middle of a request that carries a secret; its traceback is in the log."""
    await api.execute("UPDATE containers SET secrets = 'damaged' WHERE id = :id", id=container_id)
    body = {"env": {"TOKEN": CANARIES["refused environment"]}}
    crashed = await api.ask(home.admin, "PATCH", f"/api/v1/containers/{container_id}", json=body)
    assert crashed.status_code == 500, crashed.text


def spellings(canary: str) -> set[str]:
    """As it is, as hexadecimal digits (which is how a dump shows bytes), and within base64 at each of its offsets."""
    raw = canary.encode()
    inner = {base64.b64encode(b"x" * offset + raw)[4:-4].decode() for offset in range(3)}
    return {canary, raw.hex(), *inner}


def command_lines() -> str:
    """Of every process of this machine, with its environment."""
    texts = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                texts.append((process / name).read_bytes().decode(errors="replace"))
            except OSError:
                continue  # it ended, or is not ours to look at
    return "\n".join(texts)


async def test_no_canary_is_found(api: Api, request: pytest.FixtureRequest) -> None:
    home = await new_home(api)
    local, private = await plant(api, home)
    created = await api.post(home.admin, f"/projects/{home.project_id}/api-keys", {"name": "canary"})
    key = created.json()["key"]
    api.answers.remove(created.text)  # the one answer that shows it
    world = await world_of(api, home)

    async def runs() -> bool:
        return (await world.container(local)).state == "RUNNING"

    async with driven(world, WatchedEngine(world.machine)):
        await eventually(runs, "the container with the secret environment runs")
        started = {one.environment.get("TOKEN") for one in world.machine.running()}
        assert started == {CANARIES["environment"]}, "or there would be nothing to find"
        await look_everywhere(api, home, local, private)
        processes = command_lines()
    await crash(api, home, private)
    # Loggers keep the stream that they were made with, which is pytest's own.
    logs = "".join(request.config.pluginmanager.getplugin("capturemanager").read_global_capture())
    places = {
        "database": await api.dump(),
        "logs": logs,
        "command lines": processes,
        "answers": "\n".join(api.answers),
        "representations": repr(list(world.machine.replicas.values())),
    }
    assert "DecryptionError" in logs, "or nothing was looked at"
    hits = [
        (what, where)
        for what, canary in {**CANARIES, "API key": key}.items()
        for where, text in places.items()
        for spelling in spellings(canary)
        if spelling in text
    ]
    sizes = ", ".join(f"{where} {len(text) / 1000:.0f} kB" for where, text in places.items())
    print(f"{len(CANARIES) + 1} canaries, {len(hits)} hits in {sizes}")
    assert hits == []


async def test_the_master_key_rotates(api: Api) -> None:
    """A new key in front of the old one: old rows stay readable, new ones need only the new key."""
    new_key, old_key = (b"\x09" * 4, b"\x08" * 32), KEYRING.keys[0]
    both, new_only = Keyring((new_key, old_key)), Keyring((new_key,))
    home = await new_home(api)
    _, private = await plant(api, home)

    async def sealed() -> bytes:
        rows = await api.rows("SELECT secrets FROM containers WHERE id = :id", id=private)
        return bytes(rows[0][0])

    before = await sealed()
    assert unseal(both, private, before).registry_password == CANARIES["registry password"]
    with pytest.raises(DecryptionError, match="is not in the key file"):
        unseal(new_only, private, before)
    api.app.state.keyring = both
    assert (await api.ask(home.admin, "PATCH", f"/api/v1/containers/{private}", json={})).status_code == 200
    assert unseal(new_only, private, await sealed()).registry_password == CANARIES["registry password"]


async def test_swapped_ciphertexts_fail(api: Api) -> None:
    """Copied to another row, or to another column of the same row, a ciphertext is worthless."""
    home = await new_home(api)
    ids = [new_container_id() for _ in range(10)]
    sealed = {one: seal(KEYRING, one, ContainerSecrets(None, {"A": one})) for one in ids}
    refused = 0
    for owner in ids:
        for other in ids:
            if owner == other:
                assert unseal(KEYRING, owner, sealed[owner]).environment == {"A": owner}
                continue
            with pytest.raises(DecryptionError, match="copied from another row"):
                unseal(KEYRING, other, sealed[owner])
            refused += 1
        with pytest.raises(DecryptionError):
            unseal_draft(KEYRING, owner, sealed[owner])
        with pytest.raises(DecryptionError):
            unseal(KEYRING, owner, seal_draft(KEYRING, owner, {"port": 1}))
        refused += 2
    local, private = await plant(api, home)
    await api.execute(
        "UPDATE containers SET secrets = (SELECT secrets FROM containers WHERE id = :private) WHERE id = :local",
        local=local,
        private=private,
    )
    await api.execute("UPDATE containers SET state = 'STOPPED', desired_state = 'stopped'")
    edited = await api.ask(home.admin, "PATCH", f"/api/v1/containers/{local}", json={"port": 9000})
    assert edited.status_code == 500, "rather nothing than somebody else's secrets"
    assert not any(canary in edited.text for canary in CANARIES.values())
    print(f"{refused} swaps, all refused")


async def test_a_dump_shows_what_it_should(api: Api) -> None:
    """The looking itself: a secret that was stored in plain would be found."""
    home = await new_home(api)
    await plant(api, home)
    await api.execute("UPDATE containers SET message = :canary", canary=CANARIES["environment"])
    await api.execute(
        "UPDATE containers SET draft = :canary", canary=CANARIES["draft's environment"].encode()
    )
    dump = await api.dump()
    for what in ("environment", "draft's environment"):
        assert any(spelling in dump for spelling in spellings(CANARIES[what])), what
    assert SMALL in dump
    assert ContainerRow.__tablename__ in dump

"""A dump restored on an empty machine, and replicas removed by hand: everything serves again by itself."""

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from moorage.engines.docker.connection import DockerConnection
from tests.acceptance.engines import an_engine, remove_replicas
from tests.acceptance.stack import Deployed, Person, Stack, until

CONTAINERS, REPLICAS = 10, 3
SERVES_AGAIN_WITHIN_S = 60.0
THREE = {
    "mode": "autoscaling",
    "instance_type": "cpu-nano",
    "min_replicas": REPLICAS,
    "max_replicas": REPLICAS,
}


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_restore_on_an_empty_machine_and_replicas_removed_by_hand(short_folder: Path) -> None:
    dump, image = short_folder / "moorage.dump", short_folder / "chat.tar"
    with an_engine(short_folder / "a") as docker_host:
        before = Stack(short_folder / "home", docker_host, "23000-24999")
        try:
            before.up()
            person = before.sign_up("ada@example.com")
            chats = [person.deploy(f"chat-{number}", resources=THREE) for number in range(CONTAINERS)]
            key = person.key()
            until(lambda: all_serve(person, chats), "all serve", timeout_s=300)
            old = ready_replicas(person, chats)
            asyncio.run(save_image(docker_host, image))
            before.moor("backup", str(dump))
            shutil.copy2(before.home / "secret-keys", short_folder / "secret-keys")
        finally:
            if before.process is not None:
                before.interrupt()
            asyncio.run(remove_replicas(docker_host))  # At once: the machine is gone.
            before.clean()

    with an_engine(short_folder / "b") as docker_host:
        after = Stack(short_folder / "new", docker_host, "23000-24999", gateway_port=before.gateway_port)
        try:
            after.home.mkdir()
            after.home.chmod(0o755)
            shutil.copy2(short_folder / "secret-keys", after.home / "secret-keys")
            after.moor("restore", str(dump))
            asyncio.run(load_image(docker_host, image))
            images_there_s = time.monotonic()
            after.up()
            token = person.api.headers["Authorization"].removeprefix("Bearer ")
            same = Person(after, after.client(token), person.project_id)
            restored = [Deployed(same, chat.id, chat.url) for chat in chats]
            # Until the controller has looked, the rows tell of the machine that is gone.
            restored_in_s = serve_again(same, restored, key, without=old, since_s=images_there_s)

            old = ready_replicas(same, restored)
            removed_s = time.monotonic()
            removed = asyncio.run(remove_replicas(docker_host))
            assert removed == CONTAINERS * REPLICAS
            replaced_in_s = serve_again(same, restored, key, without=old, since_s=removed_s)
            for chat in restored:
                same.api.delete(f"/containers/{chat.id}")
            gone = lambda: all(same.api.get(f"/containers/{one.id}").status_code == 404 for one in restored)  # noqa: E731
            until(gone, "all are deleted, though the old machine's gateway never says a word", timeout_s=180)
        finally:
            if after.process is not None:
                after.interrupt()
            after.clean()
    print(
        f"{CONTAINERS} containers of {REPLICAS} serve again {restored_in_s:.1f} s after a restore, "
        f"and {replaced_in_s:.1f} s after all replicas were removed"
    )


def all_serve(person: Person, chats: list[Deployed]) -> bool:
    listed = person.api.get(f"/projects/{person.project_id}/containers", params={"limit": 100}).json()
    found = {one["id"]: one for one in listed["items"]}
    return all(
        found[chat.id]["state"] == "RUNNING" and found[chat.id]["replicas"]["ready"] == REPLICAS
        for chat in chats
    )


def ready_replicas(person: Person, chats: list[Deployed]) -> set[str]:
    listed = [person.api.get(f"/containers/{chat.id}/replicas").json()["items"] for chat in chats]
    return {one["id"] for items in listed for one in items if one["state"] == "routed"}


def serve_again(
    person: Person, chats: list[Deployed], key: str, *, without: set[str], since_s: float
) -> float:
    """By replicas that are new, within the time that is promised: counted from `since_s`, with all that was done since."""

    def all_are_new() -> bool:
        return all_serve(person, chats) and ready_replicas(person, chats).isdisjoint(without)

    left_s = since_s + SERVES_AGAIN_WITHIN_S - time.monotonic()
    until(all_are_new, "all serve again", timeout_s=left_s)
    for chat in chats:
        assert chat.ask(key).status_code == 200
    took_s = time.monotonic() - since_s
    assert took_s <= SERVES_AGAIN_WITHIN_S
    return took_s


async def save_image(docker_host: str, file: Path) -> None:
    connection = DockerConnection(docker_host)
    async with connection.docker.images.export_image("local/chat:latest") as content:
        with open(file, "wb") as archive:  # noqa: ASYNC230 - nothing else runs in this loop
            async for data in content.iter_any():
                archive.write(data)
    await connection.close()


async def load_image(docker_host: str, file: Path) -> None:
    connection = DockerConnection(docker_host)
    with open(file, "rb") as archive:  # noqa: ASYNC230 - nothing else runs in this loop
        async for _ in connection.docker.images.import_image(archive.read(), stream=True):
            pass
    await connection.close()

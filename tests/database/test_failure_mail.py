"""A container that fails is told of by mail, once."""

import pytest
from reconciler_support import KEYRING, WatchedEngine, World, driven, eventually, new_world

from moorage.containers import service
from moorage.containers.activity import record_activity
from moorage.identity.users.models import UserRow
from moorage.kit.database import Database
from moorage.kit.ids import new_user_id
from moorage.kit.pagination import PageRequest
from moorage.notifications.message import Mail
from moorage.notifications.repository import list_outbox
from moorage.organizations.models import MemberRow


async def new_member(world: World, name: str, role: str) -> str:
    user_id = new_user_id()
    async with world.database.transaction() as session:
        session.add(UserRow(id=user_id, email=f"{name}@example.com"))
        await session.flush()
        organization_id = world.project.organization_id
        session.add(MemberRow(organization_id=organization_id, user_id=user_id, role=role))
    return user_id


async def mails(world: World) -> list[Mail]:
    async with world.database.transaction() as session:
        return await list_outbox(session, KEYRING, PageRequest(limit=50, after=None))


async def failed(world: World, container_id: str, generation: int) -> None:
    async def there() -> bool:
        row = await world.container(container_id)
        return row.state == "FAILED" and row.failed_generation == generation

    await eventually(there, "it fails")
    await eventually(lambda: world.nothing_left(container_id), "nothing is left of what failed")


@pytest.mark.long
async def test_a_failure_is_told_of_once(database: Database) -> None:
    world = await new_world(database)
    await new_member(world, "ada", "admin")
    bea = await new_member(world, "bea", "user")
    async with driven(world, WatchedEngine(world.machine)):
        # A key asked for it, so nobody in particular is concerned.
        container_id = await world.create("local/crash:latest")
        await failed(world, container_id, 1)
        (mail,) = await mails(world)
        assert (mail.to, mail.subject) == ("ada@example.com", "container-1 failed on Moorage")
        assert "The process ended with exit code 3." in mail.text
        assert f"/projects/{world.project.id}/containers/{container_id}" in mail.text

        async with database.transaction() as session:
            record_activity(
                session,
                project_id=world.project.id,
                container_id=container_id,
                actor=bea,
                kind="container.edit",
            )
        await world.ask(service.start_container, container_id)
        await failed(world, container_id, 2)
        assert sorted(mail.to for mail in await mails(world)) == ["ada@example.com", "bea@example.com"]

        async with database.transaction() as session:
            await session.delete(await session.get_one(MemberRow, (world.project.organization_id, bea)))
        await world.ask(service.start_container, container_id)
        await failed(world, container_id, 3)
        assert sorted(mail.to for mail in await mails(world)) == ["ada@example.com"] * 2 + ["bea@example.com"]

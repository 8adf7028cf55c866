"""What signs for doors, in Postgres: one for all controllers, sealed, and read by gateways where there is a door."""

import asyncio
from datetime import timedelta

import pytest

from moorage.containers.door_authorities import DoorAuthorities
from moorage.containers.door_authority_repository import authorities, certificates
from moorage.engines.doors import SUCCEEDED_AFTER
from moorage.kit.clock import system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import DecryptionError, EngineError
from moorage.kit.ids import InstallationId

KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
INSTALLATION = InstallationId("ins_of_a_test")


def doors(database: Database, keyring: Keyring = KEYRING) -> DoorAuthorities:
    return DoorAuthorities(database, keyring, INSTALLATION, system_clock)


async def test_controllers_agree_on_one(database: Database) -> None:
    several = [doors(database) for _ in range(4)]
    await asyncio.gather(*(one.ensure() for one in several))
    signed = {(await one.authority()).certificate for one in several}
    async with database.transaction() as session:
        assert signed == {await certificates(session)}


async def test_without_one_nothing_starts(database: Database) -> None:
    with pytest.raises(EngineError, match="Nothing signs"):
        await doors(database).authority()


async def test_the_key_is_sealed(database: Database) -> None:
    await doors(database).ensure()
    key = (await doors(database).authority()).key
    async with database.transaction() as session:
        (row,) = await authorities(session)
        assert key.encode() not in row.sealed_key
    with pytest.raises(DecryptionError):
        await doors(database, Keyring(((b"\x03" * 4, b"\x04" * 32),))).authority()


async def test_the_next_one_joins_before_it_signs(database: Database) -> None:
    await doors(database).ensure()
    async with database.transaction() as session:
        (row,) = await authorities(session)
        row.made_at -= SUCCEEDED_AFTER + timedelta(days=1)
    first = (await doors(database).authority()).certificate
    await doors(database).ensure()
    async with database.transaction() as session:
        both = await certificates(session)
    assert both.startswith(first)
    assert both.count("BEGIN CERTIFICATE") == 2
    assert (await doors(database).authority()).certificate == first
    assert len((await doors(database).trust()).get_ca_certs()) == 2

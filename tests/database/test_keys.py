"""Keys that copies share: never made up, compared with the installation's row, replaced in two steps."""

import asyncio
import os
from pathlib import Path

import httpx
import pytest
from api_support import ANONYMOUS, KEYRING, Api, api_fixture
from pydantic import SecretStr, ValidationError
from sqlalchemy import text

from moorage.entrypoints import api_role, controller_role
from moorage.entrypoints.bootstrap import make_keys, operator_key_of
from moorage.entrypoints.bootstrap_job import bootstrap_installation
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import SettingsError, SetupError
from moorage.kit.installation import ensure_installation_id
from moorage.kit.keys import keep_same_keys, keyring_of
from moorage.kit.settings import Settings

__all__ = ["api_fixture"]

OLD, NEW, FOREIGN = ((bytes([n]) * 4, bytes([n]) * 32) for n in (1, 2, 3))


def mounted(home: Path, dsn: str, **others: object) -> Settings:
    return Settings(home=home, database_dsn=SecretStr(dsn), keys="mounted", **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", [api_role, controller_role])
async def test_a_role_makes_no_key(role: object, database_dsn: str, tmp_path: Path) -> None:
    settings = mounted(tmp_path, database_dsn, secret_keys_path=tmp_path / "keys/secret-keys")
    with pytest.raises(
        SettingsError, match=r"secret-keys \(No such file.*none are made.*MOORAGE_SECRET_KEYS"
    ):
        async with asyncio.timeout(20):
            await role.serve(settings)  # type: ignore[attr-defined]
    assert not any(os.scandir(tmp_path)), "nothing was written"


async def test_the_operators_key_is_read_and_never_written(database_dsn: str, tmp_path: Path) -> None:
    settings = mounted(tmp_path, database_dsn)
    with pytest.raises(SettingsError, match=r"Cannot read the operator's key from .*MOORAGE_OPERATOR_KEY"):
        operator_key_of(settings)
    (tmp_path / "operator-key").write_text("moor_op_short\n")
    with pytest.raises(SettingsError, match=r"operator-key is not an operator's key"):
        operator_key_of(settings)
    assert (tmp_path / "operator-key").read_text() == "moor_op_short\n"


async def test_keys_from_files_and_from_variables(database_dsn: str, tmp_path: Path) -> None:
    secret, operator = make_keys(tmp_path / "made")
    with pytest.raises(SettingsError, match="exists already"):
        make_keys(tmp_path / "made")
    by_path = mounted(tmp_path, database_dsn, secret_keys_path=secret, operator_key_path=operator)
    by_text = mounted(
        tmp_path, database_dsn, secret_keys=secret.read_text(), operator_key=operator.read_text()
    )
    assert keyring_of(by_path) == keyring_of(by_text)
    assert operator_key_of(by_path) == operator_key_of(by_text)
    assert secret.read_text().split()[1] not in repr(by_text)
    with pytest.raises(ValidationError, match="set database_dsn"):
        Settings(home=tmp_path, keys="mounted")


async def test_copies_with_other_keys_are_noticed(database: Database) -> None:
    async def starts(*keys: tuple[bytes, bytes]) -> bool:
        async with database.transaction() as session:
            try:
                await keep_same_keys(session, Keyring(keys))
            except SetupError:
                return False
        return True

    async with database.transaction() as session:
        await ensure_installation_id(session)
    assert await starts(OLD)
    assert not await starts(FOREIGN)
    assert not await starts(NEW), "a new key alone cannot read what is there"
    # Added below the old one, copy by copy; then put on top, copy by copy; then the old one goes.
    for keys in ((OLD, NEW), (OLD,), (OLD, NEW), (NEW, OLD), (OLD, NEW), (NEW, OLD), (NEW,)):
        assert await starts(*keys), keys
    assert not await starts(OLD)


async def test_of_two_first_copies_one_is_first(database: Database) -> None:
    async with database.transaction() as session:
        await ensure_installation_id(session)

    async def start(key: tuple[bytes, bytes]) -> None:
        async with database.transaction() as session:
            await keep_same_keys(session, Keyring((key,)))

    for _ in range(10):
        async with database.transaction() as session:
            await session.execute(text("UPDATE installation SET sealing_key = NULL"))
        ended = await asyncio.gather(start(OLD), start(FOREIGN), return_exceptions=True)
        assert sorted(type(one).__name__ for one in ended) == ["NoneType", "SetupError"]


async def test_a_copy_with_other_keys_is_not_ready_and_does_not_start(api: Api, short_folder: Path) -> None:
    """Ready is asked too: at the start the database may have been away."""
    assert (await api.ask(ANONYMOUS, "GET", "/readyz")).status_code == httpx.codes.OK
    async with api.database.transaction() as session:
        await keep_same_keys(session, Keyring((FOREIGN,)))
    assert (await api.ask(ANONYMOUS, "GET", "/readyz")).status_code == httpx.codes.SERVICE_UNAVAILABLE
    settings = Settings(home=short_folder, database_dsn=SecretStr(api.database.dsn))
    for role in (api_role, controller_role):
        with pytest.raises(
            SetupError, match=r"are not the ones that seal this installation's secrets.*--accept-keys"
        ):
            async with asyncio.timeout(20):
                await role.serve(settings)
    said: list[str] = []
    await bootstrap_installation(settings, said.append, wait_s=5, dump_first=False, accept=True)
    async with api.database.transaction() as session:
        await keep_same_keys(session, keyring_of(settings))
        with pytest.raises(SetupError):
            await keep_same_keys(session, KEYRING)

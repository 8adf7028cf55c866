"""What a new installation begins with: its id, a catalogue, and an operator with a key, a home and a link."""

import asyncio
import os
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import fill_empty_catalogue
from moorage.identity.sign_in.service import create_link
from moorage.identity.tokens import OPERATOR_KEY_PREFIX, is_well_formed, new_token
from moorage.identity.users.models import UserRow
from moorage.identity.users.repository import (
    create_user,
    find_operator,
    operator_key_exists,
    replace_operator_key,
)
from moorage.kit.crypto import sha256
from moorage.kit.email import normalized
from moorage.kit.errors import SettingsError
from moorage.kit.ids import OrganizationId, UserId
from moorage.kit.installation import ensure_installation_id
from moorage.kit.settings import Settings
from moorage.ledger.initial_credit_repository import offer_initial_credit
from moorage.organizations.repository import create_organization, create_project


async def bootstrap(session: AsyncSession, settings: Settings) -> None:
    """Safe to repeat: what is there stays."""
    await ensure_installation_id(session)
    await fill_empty_catalogue(session)
    await _ensure_operator(session, settings)
    await _ensure_operator_key(session, settings.operator_key_file)
    await asyncio.to_thread(_write_addresses, settings)


async def operator_sign_in_link(session: AsyncSession, settings: Settings) -> str:
    operator = await find_operator(session)
    assert operator is not None, "bootstrap made one"
    return f"{settings.api_base_url}/sign-in?token={await create_link(session, operator)}"


async def _ensure_operator(session: AsyncSession, settings: Settings) -> UserRow:
    operator = await find_operator(session)
    if operator is None:
        try:
            email = normalized(settings.operator_email)
        except ValueError as exc:
            raise SettingsError(f"operator_email {exc}") from exc
        operator, _ = await create_user(session, email, is_operator=True)
        organization = await create_organization(session, "Operator", UserId(operator.id))
        await offer_initial_credit(session, organization.id, operator.id, operator.email, needs="nothing")
        await create_project(session, OrganizationId(organization.id), "default")
    return operator


async def _ensure_operator_key(session: AsyncSession, path: Path) -> None:
    key = await asyncio.to_thread(_read_or_write_operator_key, path)
    if not await operator_key_exists(session, sha256(key)):
        await replace_operator_key(session, sha256(key))


def _read_or_write_operator_key(path: Path) -> str:
    """The file is the key: delete it and start again to get a new one; the old one is refused from then on."""
    key = path.read_text().strip() if path.exists() else ""
    if not is_well_formed(key, OPERATOR_KEY_PREFIX):
        key = new_token(OPERATOR_KEY_PREFIX)
        temporary = path.with_name(path.name + ".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{key}\n")
        temporary.replace(path)
    return key


def _write_addresses(settings: Settings) -> None:
    """Where this installation answers, beside its operator's key: `moor login` sends the key nowhere else."""
    local = settings.local_api_url
    addresses = dict.fromkeys([settings.api_base_url, local, local.replace("//127.0.0.1:", "//localhost:")])
    (settings.home / "addresses").write_text("".join(f"{address}\n" for address in addresses))

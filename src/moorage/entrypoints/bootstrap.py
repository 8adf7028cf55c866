"""What a new installation begins with: its id, a catalogue, and an operator with a key, a home and a link."""

import asyncio
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import fill_empty_catalogue
from moorage.identity.sign_in.service import create_link
from moorage.identity.tokens import OPERATOR_KEY_PREFIX, is_well_formed, new_token
from moorage.identity.users.repository import (
    create_user,
    find_operator,
    operator_key_exists,
    replace_operator_key,
)
from moorage.kit.crypto import load_or_create_keyring, sha256
from moorage.kit.database import take_turn
from moorage.kit.email import normalized
from moorage.kit.errors import SettingsError
from moorage.kit.ids import OrganizationId, UserId
from moorage.kit.installation import ensure_installation_id
from moorage.kit.settings import Settings
from moorage.kit.whole_files import write_whole
from moorage.ledger.initial_credit_repository import offer_initial_credit
from moorage.organizations.repository import create_organization, create_project


async def bootstrap(session: AsyncSession, settings: Settings) -> list[str]:
    """Safe to repeat, and to do twice at once: what is there stays. Says what was not."""
    await take_turn(session, "bootstrap")
    did = []
    await ensure_installation_id(session, settings.installation_id)
    await fill_empty_catalogue(session)
    if await find_operator(session) is None:
        await _create_operator(session, settings)
        did.append(f"the operator {settings.operator_email} was made, with an organization and the catalogue")
    if await _ensure_operator_key(session, settings):
        did.append("the operator's key was taken over")
    if settings.keys == "made":
        await asyncio.to_thread(_write_addresses, settings)
    return did


async def operator_sign_in_link(session: AsyncSession, settings: Settings) -> str:
    operator = await find_operator(session)
    assert operator is not None, "bootstrap made one"
    return f"{settings.api_base_url}/sign-in?token={await create_link(session, operator)}"


async def _create_operator(session: AsyncSession, settings: Settings) -> None:
    try:
        email = normalized(settings.operator_email)
    except ValueError as exc:
        raise SettingsError(f"operator_email {exc}") from exc
    operator, _ = await create_user(session, email, is_operator=True)
    organization = await create_organization(session, "Operator", UserId(operator.id))
    await offer_initial_credit(session, organization.id, operator.id, operator.email, needs="nothing")
    await create_project(session, OrganizationId(organization.id), "default")


async def _ensure_operator_key(session: AsyncSession, settings: Settings) -> bool:
    """Whether it was not the one that is known."""
    key = await asyncio.to_thread(operator_key_of, settings)
    if await operator_key_exists(session, sha256(key)):
        return False
    await replace_operator_key(session, sha256(key))
    return True


def operator_key_of(settings: Settings) -> str:
    """Mounted, it is read and never written."""
    if settings.operator_key is not None:
        key = settings.operator_key.get_secret_value().strip()
        where = "MOORAGE_OPERATOR_KEY"
    elif settings.keys == "made":
        return _read_or_write_operator_key(settings.operator_key_file)
    else:
        where = str(settings.operator_key_file)
        try:
            key = settings.operator_key_file.read_text().strip()
        except OSError as exc:
            raise SettingsError(
                f'Cannot read the operator\'s key from {where} ({exc.strerror}). With keys = "mounted", Moorage does not create one. '
                "Mount the key there, name its file with MOORAGE_OPERATOR_KEY_PATH, or set MOORAGE_OPERATOR_KEY. "
                "`moor new-keys FOLDER` creates one."
            ) from exc
    if not is_well_formed(key, OPERATOR_KEY_PREFIX):
        raise SettingsError(f"{where} is not an operator's key. `moor new-keys FOLDER` creates one.")
    return key


def make_keys(folder: Path) -> tuple[Path, Path]:
    files = folder / "secret-keys", folder / "operator-key"
    for file in files:
        if file.exists():
            raise SettingsError(
                f"{file} exists already. Without it, secrets sealed with it could not be read."
            )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    load_or_create_keyring(files[0])
    _read_or_write_operator_key(files[1])
    return files


def _read_or_write_operator_key(path: Path) -> str:
    """The file is the key: delete it and start again to get a new one; the old one is refused from then on."""
    key = path.read_text().strip() if path.exists() else ""
    if not is_well_formed(key, OPERATOR_KEY_PREFIX):
        key = new_token(OPERATOR_KEY_PREFIX)
        write_whole(path, f"{key}\n", 0o600)
    return key


def _write_addresses(settings: Settings) -> None:
    """Where this installation answers, beside its operator's key: `moor login` sends the key nowhere else."""
    local = settings.local_api_url
    addresses = dict.fromkeys([settings.api_base_url, local, local.replace("//127.0.0.1:", "//localhost:")])
    write_whole(settings.home / "addresses", "".join(f"{address}\n" for address in addresses), 0o644)

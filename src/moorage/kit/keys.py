"""The keys that secrets are sealed with: made once on one machine, mounted where several copies share them.

Purpose: no copy seals with a key that the others do not have.
Invariants: with `keys = "mounted"` nothing is made up. The installation's row names the key that sealed last; whoever does not have it
does not start, and is not ready.
A key is replaced in two steps, because copies are restarted one after the other: first the new one is added below the old one
everywhere, then it is put on top.
"""

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.crypto import Keyring, load_or_create_keyring, parse_keyring, read_keyring
from moorage.kit.errors import SettingsError, SetupError
from moorage.kit.installation import InstallationRow
from moorage.kit.settings import Settings


def keyring_of(settings: Settings) -> Keyring:
    if settings.secret_keys is not None:
        return parse_keyring(settings.secret_keys.get_secret_value(), "secret_keys")
    if settings.keys == "made":
        return load_or_create_keyring(settings.key_file)
    try:
        return read_keyring(settings.key_file)
    except OSError as exc:
        raise SettingsError(
            f'The keys that secrets are sealed with cannot be read from {settings.key_file} ({exc.strerror}), and with keys = "mounted" '
            "none are made. Mount them there, name their file with MOORAGE_SECRET_KEYS_PATH, or give them as MOORAGE_SECRET_KEYS; "
            "every copy needs the same ones."
        ) from exc


async def keep_same_keys(session: AsyncSession, keyring: Keyring) -> None:
    """At every start. The first one says which key seals; one that has that key and seals with another replaces it."""
    ours = keyring.fingerprints[0]
    recorded = (await session.execute(select(InstallationRow.sealing_key))).scalar_one_or_none()
    if recorded == ours:
        return
    if recorded is None or recorded in keyring.fingerprints:
        # Of two that come first together, one is: the other is judged by what it wrote.
        unchanged = InstallationRow.sealing_key.is_not_distinct_from(recorded)
        await session.execute(update(InstallationRow).where(unchanged).values(sealing_key=ours))
    await require_same_keys(session, keyring)


async def require_same_keys(session: AsyncSession, keyring: Keyring) -> None:
    """Nothing is known yet, or it is one of ours."""
    recorded = (await session.execute(select(InstallationRow.sealing_key))).scalar_one_or_none()
    if recorded is not None and recorded not in keyring.fingerprints:
        raise SetupError(
            f"The secret keys here ({', '.join(keyring.fingerprints)}) are not the ones that seal this "
            f"installation's secrets ({recorded}). This copy could not read existing secrets, and other "
            "copies could not read its new ones. Use the same key file as the other copies. If that file is "
            "lost for good, `moor bootstrap --accept-keys` continues with these keys; existing secrets then "
            "stay unreadable."
        )


async def accept_keys(session: AsyncSession, keyring: Keyring) -> None:
    """From now on these, whatever it was before."""
    await session.execute(update(InstallationRow).values(sealing_key=keyring.fingerprints[0]))

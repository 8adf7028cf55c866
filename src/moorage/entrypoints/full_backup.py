"""Everything that a machine needs to become this installation, in one encrypted file: the database, the keys, the settings.

The file is a tar archive inside the format of `age`, so that the program of that name opens it too. It is encrypted for the recovery
key, of which this machine needs only the public half: whoever gets at a backup, and at this machine's settings, reads nothing. The
other half is the operator's to keep elsewhere, and nothing else opens it.
"""

import asyncio
import contextlib
import fcntl
import importlib.metadata
import io
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyrage

from moorage.entrypoints.backup import dump, note_backup, restore
from moorage.entrypoints.backup_retention import backup_name, outdated
from moorage.kit.clock import system_clock
from moorage.kit.errors import SettingsError, SetupError
from moorage.kit.home import prepare_home
from moorage.kit.lock_files import open_lock_file
from moorage.kit.settings import Settings, find_config_file
from moorage.kit.whole_files import create_whole

_DUMP, _KEYS, _OPERATOR_KEY, _SETTINGS, _ABOUT = (
    *("moorage.dump", "secret-keys", "operator-key", "moorage.toml", "about.json"),
)
_MEMBERS = frozenset({_DUMP, _KEYS, _OPERATOR_KEY, _SETTINGS, _ABOUT})
_MAGIC = b"age-encryption.org/v1\n"
_LARGEST_MEMBER_BYTES = 1 << 20
"""Of all but the dump."""


@dataclass(frozen=True)
class RecoveryKey:
    text: str
    """The file's, to be kept elsewhere."""
    recipient: str


def new_recovery_key() -> RecoveryKey:
    identity = pyrage.x25519.Identity.generate()
    recipient = str(identity.to_public())
    text = (
        "# Moorage's recovery key. Every backup is encrypted for it, and without it none can be read.\n"
        f"# Keep it off the machine that it was made on. Public half: {recipient}\n{identity}\n"
    )
    return RecoveryKey(text, recipient)


def is_full_backup(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC


async def back_up_everything(settings: Settings) -> tuple[Path, list[Path]]:
    """The new file, and old ones that went because of their age."""
    recipient = _recipient(settings)
    now = system_clock.now()
    folder = settings.backups_dir
    await asyncio.to_thread(_make_private_folder, folder)
    with _only_one(settings), _room(settings) as room:
        await dump(settings, room / _DUMP)
        for broken_off in folder.glob(".moorage-*.tar.age.new"):
            broken_off.unlink()
        file = folder / backup_name(now)
        await asyncio.to_thread(_seal, _sources(settings, room), file, recipient)
        await note_backup(settings)
        names = [path.name for path in await asyncio.to_thread(lambda: list(folder.iterdir()))]
        gone = [folder / name for name in outdated(names, now, settings.backup_kept_days)]
        for old in gone:
            await asyncio.to_thread(old.unlink)
    return file, gone


async def restore_everything(settings: Settings, file: Path, key_file: Path) -> list[Path]:
    """Into an empty database and a data folder without other keys. Returns what was put back besides the database."""
    identity = await asyncio.to_thread(_identity, key_file)
    await asyncio.to_thread(prepare_home, settings)
    with _room(settings) as room:
        await asyncio.to_thread(_open, file, identity, room)
        targets = _targets(settings)
        _refuse_other_keys(room, targets)
        # The database says itself whether it is empty; only then is anything put into its place.
        await restore(settings, room / _DUMP)
        return [
            target
            for name, target in targets.items()
            if await asyncio.to_thread(_put_back, room / name, target)
        ]


def _recipient(settings: Settings) -> "pyrage.x25519.Recipient":
    if settings.backup_recipient is None:
        raise SettingsError(
            "A full backup is encrypted, but backup_recipient names no recovery key. `moor install` creates "
            "one and sets it. `moor backup FILE` writes only the database, without encryption."
        )
    try:
        return pyrage.x25519.Recipient.from_str(settings.backup_recipient)
    except pyrage.RecipientError as exc:
        raise SettingsError(f"backup_recipient is not the public half of a recovery key: {exc}.") from exc


def _sources(settings: Settings, room: Path) -> Mapping[str, bytes | Path]:
    about = {"version": importlib.metadata.version("moorage"), "made_at": system_clock.now().isoformat()}
    sources: dict[str, bytes | Path] = {_ABOUT: json.dumps(about).encode()}
    config = find_config_file()
    for name, path in ((_KEYS, settings.key_file), (_OPERATOR_KEY, settings.operator_key_file)):
        if path.is_file():
            sources[name] = path.read_bytes()
    if settings.secret_keys is not None:
        sources[_KEYS] = settings.secret_keys.get_secret_value().encode()
    if _KEYS not in sources:
        raise SetupError(
            f"There is no {settings.key_file}, and without it nobody could read a backup's secrets. Start "
            "Moorage once, or name the file with secret_keys_path."
        )
    if config is not None:
        sources[_SETTINGS] = config.read_bytes()
    return {**sources, _DUMP: room / _DUMP}


def _seal(sources: Mapping[str, bytes | Path], file: Path, recipient: "pyrage.x25519.Recipient") -> None:
    """Whole or not there."""
    unfinished = file.with_name(f".{file.name}.new")
    unfinished.unlink(missing_ok=True)
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as target:
            _through_a_pipe(
                lambda into: _pack(sources, into),
                lambda out_of: pyrage.encrypt_io(out_of, target, [recipient]),
            )
            target.flush()
            os.fsync(target.fileno())
        unfinished.replace(file)
        _sync_folder(file.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def _pack(sources: Mapping[str, bytes | Path], into: IO[bytes]) -> None:
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name, source in sources.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o600
            if isinstance(source, bytes):
                entry.size = len(source)
                archive.addfile(entry, io.BytesIO(source))
            else:
                entry.size = source.stat().st_size
                with source.open("rb") as opened:
                    archive.addfile(entry, opened)


def _open(file: Path, identity: "pyrage.x25519.Identity", room: Path) -> None:
    """All of it, before anything of it is used: a file that was cut off or changed says so at its end at the latest."""
    try:
        with file.open("rb") as source:
            _through_a_pipe(
                lambda into: pyrage.decrypt_io(source, into, [identity]), lambda out_of: _unpack(out_of, room)
            )
    except (pyrage.DecryptError, OSError, tarfile.TarError) as exc:
        raise SetupError(
            f"{file} cannot be read with this recovery key: {exc}. The backup belongs to another key, or the "
            "file is damaged or incomplete. Nothing was changed."
        ) from exc
    if not (room / _DUMP).is_file():
        raise SetupError(f"{file} holds no database. Nothing was changed.")


def _unpack(out_of: IO[bytes], room: Path) -> None:
    with tarfile.open(fileobj=out_of, mode="r|") as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            if entry.name not in _MEMBERS or content is None:
                raise tarfile.ReadError(f"{entry.name!r} does not belong in a backup")
            if entry.name != _DUMP and entry.size > _LARGEST_MEMBER_BYTES:
                raise tarfile.ReadError(f"{entry.name} is too large")
            descriptor = os.open(room / entry.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as target:
                shutil.copyfileobj(content, target)
    # The rest, which is padding: its authenticity is that of the whole.
    while out_of.read(1 << 16):
        pass


def _through_a_pipe(write: Callable[[IO[bytes]], None], read: Callable[[IO[bytes]], None]) -> None:
    """What one writes the other reads, as it comes. What the writer raises counts more: the reader's follows from it."""
    reading, writing = os.pipe()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with os.fdopen(writing, "wb") as into:
                write(into)
        except BaseException as exc:  # noqa: BLE001 - raised below, by the one that waits
            failed.append(exc)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        with os.fdopen(reading, "rb") as out_of:
            read(out_of)
    except Exception:
        writer.join()
        # A reader that gave up ends its writer too, and then it was the reader's doing.
        if failed and not isinstance(failed[0], BrokenPipeError):
            raise failed[0] from None
        raise
    writer.join()
    if failed:
        raise failed[0]


def _identity(key_file: Path) -> "pyrage.x25519.Identity":
    lines = [line.strip() for line in key_file.read_text().splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if len(keys) != 1:
        raise SettingsError(
            f"{key_file} is not a recovery key: it needs one line that begins with AGE-SECRET-KEY-."
        )
    try:
        return pyrage.x25519.Identity.from_str(keys[0])
    except pyrage.IdentityError as exc:
        raise SettingsError(f"{key_file} is not a recovery key: {exc}.") from exc


def _targets(settings: Settings) -> Mapping[str, Path]:
    """Keys that are mounted, and settings that are there, are the operator's to bring."""
    targets = {}
    if settings.keys == "made":
        targets = {_KEYS: settings.key_file, _OPERATOR_KEY: settings.operator_key_file}
    if find_config_file() is None:
        targets[_SETTINGS] = settings.home / "moorage.toml"
    return targets


def _refuse_other_keys(room: Path, targets: Mapping[str, Path]) -> None:
    for name, target in targets.items():
        here, restored = target, room / name
        if here.exists() and restored.exists() and here.read_bytes() != restored.read_bytes():
            raise SetupError(
                f"{here} differs from the one in the backup, so this data folder belongs to another "
                "installation. Restore into an empty MOORAGE_HOME. Nothing was changed."
            )


def _put_back(source: Path, target: Path) -> bool:
    if not source.exists() or target.exists():
        return False
    create_whole(target, source.read_text(), 0o600)
    return True


@contextlib.contextmanager
def _room(settings: Settings) -> Iterator[Path]:
    """For what is not encrypted: in the data folder, where it is already."""
    room = settings.home / "backup.unfinished"
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir(mode=0o700, parents=True)
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


@contextlib.contextmanager
def _only_one(settings: Settings) -> Iterator[None]:
    settings.run_dir.mkdir(parents=True, exist_ok=True)
    with open_lock_file(settings.run_dir / "backup.lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise SetupError("Another backup is being written. Wait until it ends.") from exc
        yield


def _make_private_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise SetupError(
            f"Cannot create the backup folder {folder}: {exc.strerror}. See backup_folder."
        ) from exc


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

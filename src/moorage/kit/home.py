"""The data folder and the unprivileged user that Postgres and HAProxy run as."""

import contextlib
import os
import pwd
import shutil
import subprocess
from pathlib import Path

from moorage.kit.errors import SetupError
from moorage.kit.settings import Settings

SERVICE_USER = "moorage"
_MAX_SOCKET_PATH_BYTES = 107
_LONGEST_SOCKET_NAME = "postgres/.s.PGSQL.5432"


def service_user() -> str | None:
    """Whom our daemons run as: the service user where we are root, else ourselves (None)."""
    return SERVICE_USER if os.geteuid() == 0 else None


def user_ids_of_ours() -> tuple[int, ...]:
    """Root, this process's user, and the service user where there is one."""
    ours = {0, os.geteuid()}
    with contextlib.suppress(KeyError):
        ours.add(pwd.getpwnam(SERVICE_USER).pw_uid)
    return tuple(sorted(ours))


def has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def prepare_home(settings: Settings) -> None:
    """Make the data folder usable, or say in one line why it is not. Safe to repeat."""
    home = settings.home
    if len(str(settings.run_dir / _LONGEST_SOCKET_NAME).encode()) > _MAX_SOCKET_PATH_BYTES:
        raise SetupError(f"The path {home} is too long for the sockets in it. Choose a shorter MOORAGE_HOME.")
    try:
        for folder in (home, settings.run_dir, settings.log_dir):
            folder.mkdir(parents=True, exist_ok=True)
        probe = home / f".writable-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as exc:
        reason = exc.strerror or exc
        raise SetupError(
            f"Cannot write to the data folder {home}: {reason}. Choose another with MOORAGE_HOME."
        ) from exc
    if service_user() is not None:
        create_service_user()
        _check_reachable(home)
        # The service user may pass through, but not list: what is not its own stays unseen.
        home.chmod(0o711)
        settings.run_dir.chmod(0o711)
        settings.log_dir.chmod(0o711)


def give_to_service_user(path: Path) -> None:
    user = service_user()
    if user is not None:
        shutil.chown(path, user, user)


def create_service_user() -> None:
    if has_user(SERVICE_USER):
        return
    command = [
        *("useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"),
        SERVICE_USER,
    ]
    created = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if created.returncode != 0:
        raise SetupError(f"Cannot create the system user {SERVICE_USER}: {created.stderr.strip()}")


def _check_reachable(home: Path) -> None:
    for folder in home.resolve().parents:
        if not folder.stat().st_mode & 0o001:
            raise SetupError(
                f"The database's user cannot reach {home}, because {folder} is closed to others. Choose "
                "another MOORAGE_HOME, such as /var/lib/moorage."
            )

"""What `moor login` remembers: the address, the token, the chosen project. One file, readable by its owner only."""

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from moorage_cli.errors import CliError, ExitCode, UsageError

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Config:
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    project: str | None = None
    organization: str | None = None


def config_path(environment: Mapping[str, str]) -> Path:
    named = environment.get("MOORAGE_CLI_CONFIG")
    if named:
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "moorage" / "cli.toml"


def load_config(path: Path) -> Config:
    try:
        values = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise CliError(
            f"Cannot read {path}: {exc}.",
            ExitCode.USAGE,
            code="config",
            hint="Repair it, or remove it and run `moor login`.",
        ) from exc
    names = [one.name for one in fields(Config)]
    return Config(**{name: values[name] for name in names if isinstance(values.get(name), str)})


def save_config(path: Path, config: Config) -> None:
    """Whole or not at all, and never readable by others, not even for a moment."""
    lines = [
        # A JSON string is a TOML basic string as long as no character is written as a surrogate pair.
        f"{one.name} = {json.dumps(getattr(config, one.name), ensure_ascii=False)}\n"
        for one in fields(Config)
        if getattr(config, one.name) is not None
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".cli-")  # with mode 0600
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write("".join(lines))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise CliError(f"Cannot write {path}: {exc.strerror or exc}.", code="config") from exc


def checked_url(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"{url!r} is not an address such as http://127.0.0.1:8080.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def installed_addresses(key_file: Path) -> list[str]:
    """Where the installation answers whose operator's key this is, the one for people first; it writes them beside it."""
    try:
        lines = key_file.with_name("addresses").read_text().split()
    except (OSError, UnicodeDecodeError):
        return []
    return [checked_url(line) for line in lines]


def operator_key_path(environment: Mapping[str, str], is_root: bool) -> Path:
    """Where an installation on this machine keeps its operator's key."""
    home = environment.get("MOORAGE_HOME")
    if home:
        return Path(home) / "operator-key"
    return (Path("/var/lib/moorage") if is_root else Path.home() / ".local/share/moorage") / "operator-key"

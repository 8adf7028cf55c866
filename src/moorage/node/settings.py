"""A machine's own settings: one TOML file, which joining writes and which holds no secret."""

import tomllib
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from moorage.engines.docker.daemon import SYSTEM_HOST
from moorage.engines.sandboxes import is_sandbox
from moorage.kit.errors import SettingsError
from moorage.kit.ids import InstallationId

DEFAULT_FILE = Path("/etc/moorage/node.toml")
_ADDRESS = r"^[0-9A-Fa-f.:]{2,45}$"


class NodeSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    installation_id: InstallationId = Field(pattern=r"^ins_[a-z2-7]{20}$")
    """The one whose containers run here; others' on the same engine are neither seen nor touched."""
    credential_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the credential that requests carry. It is 256 random bits, so its digest tells nothing."""
    address: str = Field(pattern=_ADDRESS)
    """Of this machine in the tunnel: where it is spoken to, and where its replicas are reached."""
    port: int = Field(default=7420, ge=1, le=65535)
    pulls_address: str = Field(pattern=_ADDRESS)
    """Of Moorage's pull proxy, in the tunnel."""
    pulls_port: int = Field(default=7421, ge=1, le=65535)

    docker_host: str = SYSTEM_HOST
    container_runtime: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    lent: bool = False
    """To an installation of somebody else's, whose tenants are strangers here: containers run in a sandbox, always."""
    unsandboxed_gpus: bool = False
    """But those that use a GPU do not: the installation's operator allows it, and whoever lends this machine was told."""
    gpu_handover: Literal["auto", "runtime", "cdi", "direct"] = "auto"
    isolation: Literal["required", "waived"] = "required"
    replica_ports: tuple[int, int] = (20000, 29999)
    """First and last: users of this machine are kept from them."""
    max_image_bytes: int = Field(default=100 * 2**30, ge=2**20)
    pulls_per_organization: int = Field(default=3, ge=1)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _in_a_sandbox(self) -> Self:
        if self.lent and not is_sandbox(self.container_runtime):
            raise ValueError("container_runtime must be a sandbox (runsc) on a machine that is lent")
        if self.lent and self.isolation != "required":
            raise ValueError("isolation must be required on a machine that is lent")
        return self


def load_node_settings(path: Path) -> NodeSettings:
    try:
        return NodeSettings.model_validate(tomllib.loads(path.read_text()))
    except OSError as exc:
        raise SettingsError(f"Cannot read {path}: {exc.strerror}. Joining writes it.") from exc
    except tomllib.TOMLDecodeError as exc:
        raise SettingsError(f"{path} is not valid TOML: {exc}.") from exc
    except ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in exc.errors()
        )
        raise SettingsError(f"Wrong settings in {path}: {problems}.") from exc

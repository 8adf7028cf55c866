"""One run of `moor`: where Moorage is, who is asking, and how to answer."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from moorage_cli.api.calls import Api
from moorage_cli.client import ApiClient, is_absent
from moorage_cli.config import DEFAULT_URL, Config, checked_url, config_path, load_config
from moorage_cli.errors import ApiError, CliError, ExitCode, NotSignedInError
from moorage_cli.organization_choice import choose_organization
from moorage_cli.output import Output
from moorage_cli.project_choice import choose_project

if TYPE_CHECKING:
    from moorage_cli.api.types import Container, Organization, Project


@dataclass(frozen=True)
class GlobalOptions:
    as_json: bool = False
    url: str | None = None
    project: str | None = None


@dataclass
class Session:
    options: GlobalOptions
    output: Output
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @cached_property
    def config_path(self) -> Path:
        return config_path(self.environment)

    @cached_property
    def config(self) -> Config:
        return load_config(self.config_path)

    @cached_property
    def url(self) -> str:
        return checked_url(self.named_url or DEFAULT_URL)

    @property
    def named_url(self) -> str | None:
        return self.options.url or self.environment.get("MOORAGE_URL") or self.config.url

    @cached_property
    def token(self) -> str | None:
        """A stored token goes only to the address that it was stored for."""
        given = self.environment.get("MOORAGE_TOKEN")
        if given:
            return given.strip()
        return self.config.token if self.is_stored_address else None

    @property
    def is_stored_address(self) -> bool:
        return self.config.url is not None and checked_url(self.config.url) == self.url

    @cached_property
    def client(self) -> ApiClient:
        if self.token is None:
            raise NotSignedInError(self.url)
        return ApiClient(self.url, self.token)

    @cached_property
    def api(self) -> Api:
        return Api(self.client)

    @cached_property
    def project_wish(self) -> str | None:
        stored = self.config.project if self.is_stored_address else None
        return self.options.project or self.environment.get("MOORAGE_PROJECT") or stored

    @cached_property
    def project(self) -> "Project":
        return choose_project(self.client, self.project_wish)

    @cached_property
    def organization_wish(self) -> str | None:
        stored = self.config.organization if self.is_stored_address else None
        return self.environment.get("MOORAGE_ORGANIZATION") or stored

    @cached_property
    def organization(self) -> "Organization":
        return choose_organization(self.client, self.organization_wish)

    def container(self, reference: str) -> "Container":
        """By id, or by its name in the project."""
        if reference.startswith("ctr_"):
            try:
                found = self.api.get_container(reference)
            except ApiError as exc:
                # A name may begin like an id.
                if not is_absent(exc):
                    raise
            else:
                return found
        for container in self.api.list_containers(self.project["id"]):
            if container["name"] == reference:
                return container
        raise CliError(
            f"There is no container {reference!r} in the project {self.project['name']}.",
            ExitCode.NOT_FOUND,
            code="not_found",
            hint="`moor list` shows the containers.",
        )

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()


def path_part(text: str) -> str:
    """An id as typed, kept from becoming another path."""
    return quote(text, safe="")

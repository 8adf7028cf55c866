"""From a compose service, with its variables filled in, to what it asks of Moorage. Pure, but for its `env_file`s."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moorage_cli.client import Record
from moorage_cli.compose.env_files import raw_variables_of, read_text, variables_of
from moorage_cli.compose.keys import GIVEN_ANYWAY, MEANINGS, OF_DEPLOY, TAKEN
from moorage_cli.compose.resources import sizes_of
from moorage_cli.container_file import DeployOptions
from moorage_cli.errors import UsageError
from moorage_cli.other_tools import meanings
from moorage_cli.other_tools.asked import Asked, Findings, Program
from moorage_cli.other_tools.http_checks import NO_HTTP, USUAL_RETRIES, of_command, ready_within_s
from moorage_cli.other_tools.ports import no_host_port, published, single

_NO_NOTE = frozenset({"always", "unless-stopped"})


class ServiceReader:
    def __init__(
        self,
        service: Record,
        name: str,
        path: Path,
        variables: Mapping[str, str],
        options: DeployOptions,
        findings: Findings,
    ) -> None:
        self._service = service
        self._name = name
        self._path = path
        self._variables = variables
        self._options = options
        self._findings = findings

    def asked(self) -> Asked:
        subject = f"the service {self._name}"
        self._say_what_is_left()
        body: Record = {
            "name": self._options.name or self._text("container_name") or self._name,
            "image": self._image(),
            "env": {**self._env_files(), **self._environment()},
            "health_check": self._health_check(),
        }
        if (port := self._port()) is not None:
            body["port"] = port
        replicas = self._replicas()
        if replicas != 1:
            body["resources"] = {"min_replicas": replicas, "max_replicas": replicas}
        sizes = sizes_of(self._service, self._findings)
        program = Program(self._words("entrypoint"), self._words("command"))
        self._findings.check(
            f"{subject[0].upper()}{subject[1:]}",
            "To deploy it without a key, add `--leave-out KEY`.",
        )
        notes = tuple(dict.fromkeys(self._findings.notes))
        kept = {key: value for key, value in body.items() if value not in (None, {})}
        return Asked(subject, kept, program, sizes, notes)

    def _say_what_is_left(self) -> None:
        for key, value in self._service.items():
            # `privileged: false` asks for nothing.
            if key in TAKEN or value in (None, False, "", [], {}):
                continue
            is_given = key == "security_opt" and value in GIVEN_ANYWAY
            self._findings.add(key, meanings.PROFILE if is_given else MEANINGS.get(key, meanings.UNKNOWN))
        for key in self._table("deploy"):
            if key == "mode":
                if self._table("deploy")["mode"] != "replicated":
                    self._findings.add("deploy.mode", meanings.ALL_MACHINES)
            elif key not in ("replicas", "resources"):
                self._findings.add(f"deploy.{key}", OF_DEPLOY.get(key, meanings.UNKNOWN))
        restart = str(self._service.get("restart") or "always")
        if restart not in _NO_NOTE:
            self._findings.add("restart", meanings.RESTARTS)

    def _image(self) -> str | None:
        image = self._options.image or self._text("image")
        if self._service.get("build") is None:
            return image
        if image is None:
            raise UsageError(
                f"{self._path}: the service {self._name} is built from source and names no image.",
                hint="Build it, push it to a registry, and name the image with --image.",
            )
        self._findings.add("build", meanings.BUILD)
        return image

    def _words(self, key: str) -> tuple[str, ...] | None:
        """None is the image's own; empty is none at all."""
        value = self._service.get(key)
        if value is None:
            return None
        if isinstance(value, list):
            return tuple(map(_scalar, value))
        try:
            return tuple(shlex.split(str(value)))
        except ValueError as exc:
            raise self._wrong(key, f"cannot be split into words: {str(exc).lower()}") from exc

    def _environment(self) -> dict[str, str]:
        value = self._service.get("environment") or {}
        pairs: dict[str, Any] = {}
        if isinstance(value, dict):
            pairs = value
        elif isinstance(value, list):
            for one in value:
                name, equals, text = str(one).partition("=")
                pairs[name] = text if equals else None
        else:
            raise self._wrong("environment", "must be a list or a mapping")
        found = {}
        for name, one in pairs.items():
            if one is not None:
                found[name] = _scalar(one)
            elif name in self._variables:
                found[name] = self._variables[name]
            else:
                self._findings.note(f"environment.{name}", "Your shell does not set it, so it stays unset.")
        return found

    def _env_files(self) -> dict[str, str]:
        value = self._service.get("env_file") or []
        found: dict[str, str] = {}
        for one in value if isinstance(value, list) else [value]:
            entry = one if isinstance(one, dict) else {"path": one}
            path = self._path.parent / str(entry.get("path") or "")
            if entry.get("required") is False and not path.exists():
                continue
            text = read_text(path)
            if entry.get("format") == "raw":
                found |= raw_variables_of(text, str(path), self._variables)
            else:
                found |= variables_of(text, str(path), self._variables, self._unset)
        return found

    def _unset(self, name: str) -> None:
        self._findings.note(f"${name}", "The variable is not set, so it is empty.")

    def _port(self) -> int | None:
        if self._options.port is not None:
            return self._options.port
        ports = []
        for one in self._list("ports"):
            if isinstance(one, dict):
                inside, said = published(f"{one.get('target')}/{one.get('protocol') or 'tcp'}", "ports")
                if one.get("published"):
                    said = no_host_port(str(one["published"]))
            else:
                inside, said = published(str(one), "ports")
            ports.append(inside)
            self._findings.note("ports", said)
        exposed = [published(str(one), "expose")[0] for one in self._list("expose")]
        return single(ports or exposed, f"The service {self._name}", "--port")

    def _health_check(self) -> Record:
        check = self._table("healthcheck")
        test = check.get("test")
        if check.get("disable") is True or test == ["NONE"]:
            return {}
        found: Record = {}
        if isinstance(test, list) and test[:1] == ["CMD-SHELL"]:
            test = " ".join(map(str, test[1:]))
        elif isinstance(test, list):
            test = [str(one) for one in test[1:]]
        http = of_command(test) if test else None
        if test and http is None:
            self._findings.note("healthcheck", NO_HTTP)
        elif http is not None:
            port = self._port()
            if port is not None and http.port != port:
                self._findings.note("healthcheck", f"It asks port {http.port}. {NO_HTTP}")
            else:
                found["path"] = http.path
        if check.get("start_period"):
            interval = check.get("interval")
            found["timeout_s"] = ready_within_s(
                str(check["start_period"]),
                str(interval) if interval else None,
                self._number("healthcheck.retries", check.get("retries"), USUAL_RETRIES),
                "healthcheck",
            )
        for key in ("interval", "timeout", "retries", "start_interval"):
            if key in check:
                self._findings.add("healthcheck", meanings.CHECK_PACE)
        return found

    def _replicas(self) -> int:
        count = self._table("deploy").get("replicas", self._service.get("scale"))
        return self._number("deploy.replicas", count, 1)

    def _number(self, key: str, value: Any, usual: int) -> int:
        if value is None:
            return usual
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = 0
        if number < 1:
            raise self._wrong(key, "must be a number of at least 1")
        return number

    def _text(self, key: str) -> str | None:
        value = self._service.get(key)
        return str(value) if value not in (None, "") else None

    def _table(self, key: str) -> Record:
        value = self._service.get(key) or {}
        if not isinstance(value, dict):
            raise self._wrong(key, "must be a mapping")
        return value

    def _list(self, key: str) -> list[Any]:
        value = self._service.get(key) or []
        if not isinstance(value, list):
            raise self._wrong(key, "must be a list")
        return value

    def _wrong(self, key: str, what: str) -> UsageError:
        return UsageError(f"{self._path}: {key} of the service {self._name} {what}.")


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)

"""`moor deploy --compose`: what people wrote for compose, and what becomes of it."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from cli_server import FakeMoorage, Moor

from moorage_cli.compose.env_files import variables_of
from moorage_cli.compose.keys import MEANINGS, TAKEN
from moorage_cli.compose.variables import interpolated
from moorage_cli.compose.yaml_text import mapping_of
from moorage_cli.errors import UsageError

pytest_plugins = ["cli_fixtures"]

WHOLE = """
x-common: &common
  restart: unless-stopped
  environment: &environment
    LOG_LEVEL: info
services:
  database:
    image: postgres:17
  chat:
    <<: *common
    image: ghcr.io/acme/chat:${TAG:-1.2}
    command: ["--model", "${MODEL:?say which}", "--cost", "$$5"]
    entrypoint: python3 -m 'acme serve'
    environment:
      <<: *environment
      TOKEN:
      NOT_HERE:
      DEBUG: true
      WORKERS: 4
      VERSION: 1.10
    env_file:
      - own.env
      - path: absent.env
        required: false
    ports: ["8080:8000"]
    healthcheck:
      test: ["CMD", "curl", "-f", "http://localhost:8000/ready"]
      start_period: 60s
      interval: 10s
      retries: 6
    depends_on: [database]
    shm_size: 8g
    deploy:
      replicas: 2
      resources:
        reservations:
          devices:
            - driver: nvidia
              count: 1
              capabilities: [gpu]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def write(folder: Path, text: str) -> str:
    (folder / "compose.yaml").write_text(text)
    return str(folder / "compose.yaml")


def sent(fake: FakeMoorage) -> dict[str, Any]:
    (body,) = fake.asked("POST", "/projects/prj_one/containers")
    assert isinstance(body, dict)
    return body


def test_a_whole_service(
    moor: Moor, fake: FakeMoorage, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".env").write_text("MODEL=from-the-file\nTAG=2.0\n")
    (folder / "own.env").write_text("LOG_LEVEL=debug\nOWN='$MODEL'  # as it is\nBOTH=\"$MODEL\\n\"\n")
    monkeypatch.setenv("TAG", "3.0")
    monkeypatch.setenv("TOKEN", "secret")
    fake.steps = [{"state": "RUNNING"}]
    result = moor("deploy", "--compose", write(folder, WHOLE), "--service", "chat")
    assert result.exit_code == 0, result.stderr
    body = sent(fake)
    assert shlex.split(body.pop("start_command")) == [
        *("python3", "-m", "acme serve"),
        *("--model", "from-the-file", "--cost", "$5"),
    ]
    assert body == {
        "name": "chat",
        "image": "ghcr.io/acme/chat:3.0",
        "registry": {"provider": "github"},
        "env": {
            "LOG_LEVEL": "info",
            "OWN": "$MODEL",
            "BOTH": "from-the-file\n",
            "TOKEN": "secret",
            "DEBUG": "true",
            "WORKERS": "4",
            "VERSION": "1.10",
        },
        "port": 8000,
        "health_check": {"path": "/ready", "timeout_s": 120},
        "resources": {
            "mode": "autoscaling",
            "instance_type": "h200-141gb",
            "min_replicas": 2,
            "max_replicas": 2,
        },
    }
    said = result.stderr
    for what in ("depends_on", "shm_size", "ports", "environment.NOT_HERE"):
        assert sum(line.startswith(f"{what}: ") for line in said.splitlines()) == 1, said
    assert "chat is RUNNING." in result.stdout
    assert f"{fake.url}/c/ctr_0/health" in result.stdout


def test_the_command_line_wins(moor: Moor, fake: FakeMoorage, folder: Path) -> None:
    path = write(folder, "services: {web: {build: ., ports: [80, 443], environment: [A=1, B]}}")
    result = moor("deploy", "--compose", path, "--no-wait")
    assert (result.exit_code, "--image" in result.stderr) == (2, True)
    told = [
        "--image",
        "acme/web:1",
        "--port",
        "80",
        "--name",
        "front",
        "-e",
        "A=2",
        "--instance-type",
        "cpu-small",
    ]
    result = moor("deploy", "--compose", path, "--no-wait", *told)
    assert result.exit_code == 0, result.stderr
    assert "build: Moorage builds nothing" in result.stderr
    body = sent(fake)
    assert (body["name"], body["image"], body["port"], body["env"]) == ("front", "acme/web:1", 80, {"A": "2"})


@pytest.mark.parametrize(
    ("service", "command"),
    [
        ("{}", None),
        ("{command: --fast --model x}", ["python3", "-m", "serve it", "--fast", "--model", "x"]),
        ("{command: []}", ["python3", "-m", "serve it"]),
        ("{entrypoint: /go}", ["/go"]),
        ("{entrypoint: [], command: 'sh -c \"a b\"'}", ["sh", "-c", "a b"]),
    ],
)
def test_what_is_started(
    moor: Moor, fake: FakeMoorage, folder: Path, service: str, command: list[str] | None
) -> None:
    path = write(folder, f"services: {{chat: {service}}}")
    result = moor("deploy", "--compose", path, "--image", "acme/chat", "--no-wait")
    assert result.exit_code == 0, result.stderr
    found = sent(fake).get("start_command")
    assert (shlex.split(found) if found else None) == command


def test_nothing_to_start_is_said(moor: Moor, folder: Path) -> None:
    path = write(folder, "services: {chat: {image: acme/chat, entrypoint: []}}")
    result = moor("deploy", "--compose", path)
    assert (result.exit_code, "names nothing to start" in result.stderr) == (2, True)


def test_what_would_run_otherwise_is_refused_line_by_line(
    moor: Moor, fake: FakeMoorage, folder: Path
) -> None:
    text = """
services:
  chat:
    image: acme/chat
    volumes: ["./models:/models"]
    privileged: true
    working_dir: /srv
    tomorrows_key: 1
    labels: {a: b}
    cap_add: []
    security_opt: ["no-new-privileges:true"]
    tty: false
    deploy: {mode: global, placement: {}}
"""
    result = moor("deploy", "--compose", write(folder, text))
    assert result.exit_code == 2
    refused = [line.split(":")[0].strip() for line in result.stderr.splitlines() if line.startswith("  ")]
    assert refused == ["volumes", "privileged", "working_dir", "tomorrows_key", "deploy.mode"]
    assert "--leave-out KEY" in result.stderr
    assert fake.requests == []
    left = [
        f"--leave-out={key}" for key in ("volumes", "privileged", "working_dir", "tomorrows_key", "deploy")
    ]
    result = moor("deploy", "--compose", write(folder, text), *left, "--cache", "20", "--no-wait")
    assert result.exit_code == 0, result.stderr
    assert "volumes: Left out, as you asked." in result.stderr
    assert "labels: Moorage does not keep labels." in result.stderr
    assert "security_opt: Every container is started like this anyway." in result.stderr
    assert sent(fake)["cache"] == {"size_gib": 20}
    assert moor("deploy", "--compose", write(folder, text), "--leave-out", "volume").exit_code == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("services: {a: {image: x}, b: {image: x}}", "Choose one with --service NAME."),
        ("services: {a: }", "the service a is empty"),
        ("services: {}", "it has no services"),
        ("[]", "it has no services"),
        ("services: {a: {image: x, image: y}}", "image appears twice"),
        ("services: {a: {image: 'x}", "line 1 cannot be read"),
        ("services: {a: {image: !fancy x}}", "cannot be read"),
        ("a: &a [*a]\nservices: {a: {image: x, env_file: *a}}", "contains itself"),
        ("a: &a [*a, *a]\nservices: {a: {image: x, env_file: *a}}", "contains"),
        ("services: {a: {image: '${X'}}", "Write $$ for a plain $"),
        ("services: {a: {image: '$(x)'}}", "Write $$ for a plain $"),
        ("services: {a: {image: '${X:?set it}'}}", "needs the variable X: set it"),
        ("services: {a: {image: x, ports: [80, 90]}}", "Name one with --port"),
        ("services: {a: {image: x, ports: 80}}", "ports of the service a must be a list"),
        ("services: {a: {image: x, environment: 7}}", "environment of the service a must be"),
        ("services: {a: {image: x, deploy: {replicas: 0}}}", "must be a number of at least 1"),
        ("services: {a: {image: x, deploy: 1}}", "deploy of the service a must be a mapping"),
        ("services: {a: {image: x, mem_limit: much}}", "is not a size"),
        ('services: {a: {image: x, command: "\'"}}', "cannot be split into words"),
        ("services: {a: {image: x, env_file: gone.env}}", "Cannot read"),
        ("services: {a: {image: x, runtime: runsc}}", "Moorage chooses the runtime"),
        ("services: {a: {image: x, security_opt: [seccomp=unconfined]}}", "under one security profile"),
        ("services: {a: {}}", "Name what to deploy"),
    ],
)
def test_what_is_wrong_is_said(moor: Moor, fake: FakeMoorage, folder: Path, text: str, told: str) -> None:
    result = moor("deploy", "--compose", write(folder, text))
    assert result.exit_code == 2, result.stderr
    assert told in result.stderr
    assert fake.asked("POST", "/projects/prj_one/containers") == []


def test_one_source_at_a_time(moor: Moor, folder: Path) -> None:
    path = write(folder, "services: {a: {image: x}}")
    for told in (
        ("--compose", path, "-f", path),
        ("hf:a/b", "--compose", path),
        ("--service", "a", "--image", "x"),
    ):
        assert moor("deploy", *told).exit_code == 2
    assert moor("deploy", "--compose", str(folder / "gone.yaml")).exit_code == 2


def test_gpus_in_every_spelling(moor: Moor, fake: FakeMoorage, folder: Path) -> None:
    devices = "deploy: {resources: {reservations: {devices: [%s]}}}"
    for spelled in (
        "gpus: all",
        "gpus: 1",
        "gpus: [{count: 1}], runtime: nvidia",
        devices % "{capabilities: [gpu]}",
        devices % "{driver: nvidia, device_ids: ['0'], capabilities: [gpu]}",
        "mem_limit: 100g",
        "deploy: {resources: {limits: {memory: 100g, cpus: '2'}}}",
    ):
        fake.requests.clear()
        path = write(folder, f"services: {{a: {{image: acme/x, {spelled}}}}}")
        result = moor("deploy", "--compose", path, "--no-wait")
        assert result.exit_code == 0, spelled + result.stderr
        assert sent(fake)["resources"]["instance_type"] == "h200-141gb", spelled
    path = write(folder, f"services: {{a: {{image: acme/x, {devices % '{driver: tpu}'}}}}}")
    assert moor("deploy", "--compose", path, "--no-wait").exit_code == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$A-${A}-$$A-${A:-x}", "one-one-$A-one"),
        ("${B:-x}${B-x}${C:-y}${C-y}", "x" + "" + "yy"),
        ("${C:-${D:-${A}!}}", "one!"),
        ("${A:+set}${B:+set}${B+set}${C+set}", "setset"),
        ("${C}$C", ""),
        ("${A:?no}${B?no}", "one"),
        ("${C:-a}b}", "ab}"),
        ("100%", "100%"),
    ],
)
def test_variables(text: str, value: str) -> None:
    unset: list[str] = []
    assert interpolated(text, {"A": "one", "B": ""}, "here", unset.append) == value
    assert set(unset) <= {"C"}


@pytest.mark.parametrize("text", ["$", "a$ b", "${", "${A", "${A:-${B}", "${A!}", "${}", "$1", "${" * 50])
def test_no_variables(text: str) -> None:
    with pytest.raises(UsageError):
        interpolated(text, {"A": "one"}, "here", lambda _: None)


def test_files_of_variables() -> None:
    text = (
        "# a comment\n\nexport A=1\nB = two words # and a comment\nC='single $A #no'\n"
        "D=\"a\\tb ${A} \\$A\nnext\"\nE=\nHERE\nGONE\nG=a#b\nH: yaml\nI='x' # y"
    )
    assert variables_of(text, "f", {"HERE": "h"}, lambda _: None) == {
        "A": "1",
        "B": "two words",
        "C": "single $A #no",
        "D": "a\tb 1 $A\nnext",
        "E": "",
        "HERE": "h",
        "G": "a#b",
        "H": "yaml",
        "I": "x",
    }
    for wrong in ("=1", "A B=1", "A='1", "A='1' 2", "1A=1"):
        with pytest.raises(UsageError, match="line 1"):
            variables_of(wrong, "f", {}, lambda _: None)


def test_yaml_is_that_of_compose() -> None:
    text = "a: [22:22, yes, on, 010, 1.10, 12, true, ~, null, '', 2026-01-31, 0o17]\nb:"
    assert mapping_of(text, "f") == {
        "a": ["22:22", "yes", "on", "010", "1.10", 12, True, None, None, "", "2026-01-31", "0o17"],
        "b": None,
    }


def test_no_key_is_both_taken_and_explained_away() -> None:
    assert not TAKEN & MEANINGS.keys()

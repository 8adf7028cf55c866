"""`moor run`: what people type for `docker run`, and what becomes of it."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from cli_server import FakeMoorage, Moor

from moorage_cli.commands.docker_words import WORDS
from moorage_cli.errors import CliError, UsageError
from moorage_cli.other_tools.http_checks import HttpCheck, of_command, ready_within_s
from moorage_cli.other_tools.ports import published
from moorage_cli.other_tools.sizes import Sizes, bytes_of, cheapest_with, gpus_of, vcpu_millis_of

pytest_plugins = ["cli_fixtures"]

_OPTIONS_OF_DOCKER_RUN = """
--add-host --annotation -a --attach --blkio-weight --blkio-weight-device --cap-add --cap-drop --cgroup-parent --cgroupns
--cidfile --cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime -c --cpu-shares --cpus --cpuset-cpus --cpuset-mems -d
--detach --detach-keys --device --device-cgroup-rule --device-read-bps --device-read-iops --device-write-bps
--device-write-iops --disable-content-trust --dns --dns-option --dns-search --domainname --entrypoint -e --env --env-file
--expose --gpus --group-add --health-cmd --health-interval --health-retries --health-start-interval --health-start-period
--health-timeout --hostname --init -i --interactive --ip --ip6 --ipc --isolation --kernel-memory -l --label --label-file
--link --link-local-ip --log-driver --log-opt --mac-address -m --memory --memory-reservation --memory-swap
--memory-swappiness --mount --name --net --network --network-alias --no-healthcheck --oom-kill-disable --oom-score-adj
--pid --pids-limit --platform --privileged -p --publish -P --publish-all --pull -q --quiet --read-only --restart --rm
--runtime --security-opt --shm-size --sig-proxy --stop-signal --stop-timeout --storage-opt --sysctl --tmpfs -t --tty
--ulimit --use-api-socket -u --user --userns --uts -v --volume --volume-driver --volumes-from -w --workdir
"""


def sent(fake: FakeMoorage) -> dict[str, Any]:
    (body,) = fake.asked("POST", "/projects/prj_one/containers")
    assert isinstance(body, dict)
    return body


def test_run_deploys_waits_and_shows_a_request(
    moor: Moor, fake: FakeMoorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HERE", "mine")
    (tmp_path / "vars").write_text('# of ours\nQUOTED="as it is"\nFROM_HERE\nNOT_SET_ANYWHERE\n\n')
    fake.steps = [{"state": "STARTING"}, {"state": "RUNNING"}]
    told = [*("-e", "A=1"), *("-e", "FROM_HERE"), *("--env-file", str(tmp_path / "vars")), *("-p", "8080:80")]
    result = moor("run", "--name", "web", *told, "ghcr.io/acme/web:2")
    assert result.exit_code == 0, result.stderr
    assert "Port 8080 of a machine is not opened: it is reached at its endpoint URL." in result.stderr
    assert "web is RUNNING." in result.stdout
    example = result.stdout.splitlines()[-1]
    assert shlex.split(example)[:6] == ["curl", "-sS", "--fail", "--retry", "5", "--retry-all-errors"]
    assert f"{fake.url}/c/ctr_0/health" in example
    body = sent(fake)
    assert body["env"] == {"QUOTED": '"as it is"', "FROM_HERE": "mine", "A": "1"}
    assert (body["port"], body["resources"]["instance_type"]) == (80, "cpu-small")
    assert body["registry"] == {"provider": "github"}
    assert "start_command" not in body


def test_detached_it_does_not_wait(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("run", "-d", "local/chat")
    assert (result.exit_code, "chat is PENDING" in result.stdout) == (0, True)
    result = moor("run", "-d", "--name", "other", "local/chat", "--json")
    assert result.exit_code == 2, "behind the image it is an argument of the program's"
    assert json.loads(moor("run", "-d", "--json", "local/chat").stdout)["state"] == "PENDING"


def test_arguments_go_to_what_the_image_starts(moor: Moor, fake: FakeMoorage) -> None:
    """A start command replaces the entry point as well, so it stands before the arguments."""
    assert moor("run", "-d", "acme/chat", "--model", "a b", "-p", "1").exit_code == 0
    assert shlex.split(sent(fake)["start_command"]) == [
        *("python3", "-m", "serve it"),
        *("--model", "a b", "-p", "1"),
    ]


def test_arguments_for_an_entry_point_that_nobody_knows_are_refused(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("run", "-d", "local/chat", "serve")
    assert result.exit_code == 2
    assert "--entrypoint PROGRAM" in result.stderr
    assert fake.asked("POST", "/projects/prj_one/containers") == []
    assert moor("run", "-d", "--entrypoint", "", "local/chat", "serve", "now").exit_code == 0
    assert moor("run", "-d", "--entrypoint", "python3", "local/chat", "-m", "x").exit_code == 0
    commands = [body["start_command"] for body in fake.asked("POST", "/projects/prj_one/containers")]
    assert commands == ["serve now", "python3 -m x"]
    assert moor("run", "--entrypoint", "", "local/chat").exit_code == 2


def test_an_image_that_is_not_there(moor: Moor) -> None:
    result = moor("run", "acme/absent", "serve")
    assert (result.exit_code, "As the registry says." in result.stderr) == (1, True)


def test_gpus_memory_and_cpus_choose_the_cheapest_type_that_has_them(moor: Moor, fake: FakeMoorage) -> None:
    for told, chosen in (
        (("--gpus", "all"), "h200-141gb"),
        (("--gpus", "1"), "h200-141gb"),
        (("--gpus", '"device=0"'), "h200-141gb"),
        (("-m", "256m", "--cpus", "0.5"), "cpu-small"),
        (("-m", "1g"), "h200-141gb"),
    ):
        fake.requests.clear()
        result = moor("run", "-d", *told, "acme/chat")
        assert result.exit_code == 0, result.stderr
        assert sent(fake)["resources"] == {"instance_type": chosen, "mode": "general"}
    result = moor("run", "-d", "--gpus", "8", "-m", "4t", "acme/chat")
    assert result.exit_code == 2
    assert "No instance type here has 8 GPUs, 4096 GiB of memory." in result.stderr
    assert "--instance-type" in result.stderr


def test_what_can_be_had_now_goes_before_what_is_cheaper() -> None:
    def offered(name: str, price: int, **changes: Any) -> Any:
        size = {"gpu_count": 1, "vcpu_millis": 4000, "memory_bytes": 2**34, "infrastructure": "operator"}
        usual = {"name": name, "price_per_hour_microusd": price, "available": True, "enabled": True}
        return {**usual, **size, **changes}

    types = [
        offered("cheap", 1, available=False),
        offered("gone", 2, enabled=False),
        offered("lent", 3, infrastructure="community"),
        offered("dear", 9),
        offered("fit", 5),
        offered("without", 4, gpu_count=0),
    ]
    assert cheapest_with(Sizes(gpus=1), types, "operator")["name"] == "fit"
    assert cheapest_with(Sizes(gpus=1), types, "any")["name"] == "lent"
    assert cheapest_with(Sizes(gpus=1), types[:1], "operator")["name"] == "cheap", "it waits for room"
    with pytest.raises(CliError, match="No instance type here has 2 GPUs"):
        cheapest_with(Sizes(gpus=2), types, "any")


def test_a_type_that_was_named_stays_and_what_it_lacks_is_said(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("run", "-d", "--gpus", "2", "--instance-type", "cpu-small", "acme/chat")
    assert result.exit_code == 0
    assert "cpu-small has 0 of 2 GPUs that `moor run` asks for." in result.stderr
    assert sent(fake)["resources"]["instance_type"] == "cpu-small"


def test_what_would_run_otherwise_is_refused_and_all_of_it_is_said(moor: Moor, fake: FakeMoorage) -> None:
    told = ["-v", "/models:/models", "--privileged", "--network=host", "-u", "1000", "-it", "--rm"]
    result = moor("run", *told, "acme/chat")
    assert result.exit_code == 2
    for word, setting in (
        ("--volume", "--cache GIB"),
        ("--privileged", "one security profile"),
        ("--network", "endpoint URLs"),
        ("--user", "image's USER"),
        ("--interactive", "no standard input"),
    ):
        (line,) = [one for one in result.stderr.splitlines() if one.startswith(f"  {word}:")]
        assert setting in line
    assert fake.requests == [], "before anything is asked"


def test_what_only_says_how_is_said_and_left_out(moor: Moor, fake: FakeMoorage) -> None:
    told = ["-t", "--rm", "--ipc=host", "--shm-size", "8g", "--ulimit", "memlock=-1", "--restart", "always"]
    result = moor("run", "-d", *told, "acme/chat")
    assert result.exit_code == 0, result.stderr
    for word in ("--tty", "--rm", "--ipc", "--shm-size", "--ulimit", "--restart"):
        assert f"\n{word}: " in f"\n{result.stderr}"
    assert set(sent(fake)) == {"name", "image", "registry", "resources"}


def test_a_health_check_by_curl_becomes_its_path(moor: Moor, fake: FakeMoorage) -> None:
    told = ["--health-cmd", "curl -f http://localhost:8000/ready || exit 1", "--health-start-period", "2m"]
    assert moor("run", "-d", "-p", "8000", *told, "acme/chat").exit_code == 0
    assert sent(fake)["health_check"] == {"path": "/ready", "timeout_s": 210}
    result = moor("run", "-d", "-p", "9000", *told[:2], "--name", "b", "acme/chat")
    assert "It asks port 8000." in result.stderr
    result = moor("run", "-d", "--health-cmd", "test -f /ready", "--name", "c", "acme/chat")
    assert "--health-path" in result.stderr
    others = fake.asked("POST", "/projects/prj_one/containers")[1:]
    assert all("health_check" not in body for body in others)


def test_every_option_of_docker_run_is_one(moor: Moor, fake: FakeMoorage) -> None:
    """Known, and either a setting, or answered with a sentence."""
    words = {name: word for word in WORDS for name in word.names}
    values = {"--cpus": "1", "--memory": "1", "-m": "1", "--gpus": "1", "--health-start-period": "1s"}
    values |= {"-p": "80", "--publish": "80", "--expose": "80", "--env-file": "/dev/null"}
    seen = set()
    for option in _OPTIONS_OF_DOCKER_RUN.split():
        word = words.get(option)
        if word is not None and word.parameter in seen:
            continue  # the same, spelled otherwise
        seen.add(word.parameter if word is not None else option)
        is_flag = not word.takes_value if word is not None else option in ("-d", "--detach")
        result = moor(
            "run", "-d", *([option] if is_flag else [option, values.get(option, "x=1")]), "acme/chat"
        )
        assert result.exit_code == (2 if word is not None and word.meaning.refused else 0), (
            option + result.stderr
        )
        if word is not None:
            assert f"{word.names[-1]}: {word.meaning.sentence}" in result.stderr, option
    assert words.keys() <= set(_OPTIONS_OF_DOCKER_RUN.split()) | {"--net-alias"}


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("80", 80),
        ("8080:80", 80),
        ("127.0.0.1:8080:80/tcp", 80),
        ("[::1]:8080:80", 80),
        ("127.0.0.1::80", 80),
    ],
)
def test_ports(text: str, port: int) -> None:
    assert published(text, "-p")[0] == port


@pytest.mark.parametrize("text", ["", "http", "0", "70000", "53/udp", "8000-8010", "a:b:c"])
def test_no_ports(text: str) -> None:
    with pytest.raises(UsageError):
        published(text, "-p")


def test_two_ports_are_one_too_many(moor: Moor) -> None:
    result = moor("run", "-p", "80", "-p", "443", "acme/chat")
    assert (result.exit_code, "80, 443" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("curl -f http://localhost:8000/health || exit 1", HttpCheck("/health", 8000)),
        ("curl -fsS -o /dev/null 127.0.0.1/", HttpCheck("/", 80)),
        ("curl -f http://localhost:8000/health > /dev/null 2>&1 || exit 1", HttpCheck("/health", 8000)),
        (["/usr/bin/wget", "--spider", "-q", "http://localhost:80/up?deep=1"], HttpCheck("/up?deep=1", 80)),
        ("curl -f https://localhost/health", None),
        ("curl -f http://database:8000/health", None),
        ("curl -f http://localhost:$PORT/health", None),
        ("curl -X POST http://localhost:8000/health", None),
        ("curl -f http://localhost:8000/a && curl -f http://localhost:8000/b", None),
        ("curl -f http://localhost:8000/health | grep ok", None),
        ("python3 -c 'import urllib'", None),
        ("nvidia-smi", None),
        ("curl 'unended", None),
        ("", None),
    ],
)
def test_health_checks(command: str | list[str], check: HttpCheck | None) -> None:
    assert of_command(command) == check


def test_times_sizes_and_gpus() -> None:
    assert ready_within_s("1m30s", "10s", 6, "") == 150
    assert ready_within_s("0s", "1s", 1, "") == 10
    assert ready_within_s("2h", None, 3, "") == 3600
    assert [bytes_of(text, "") for text in ("1024", "512m", "1.5g", "4GiB", "2 gb")] == [
        *(1024, 2**29, 3 * 2**29, 2**32, 2**31)
    ]
    assert [vcpu_millis_of(text, "") for text in ("0.5", "4")] == [500, 4000]
    assert [gpus_of(text)[0] for text in ("all", "2", "count=3", '"device=0,1"', "device=GPU-1")] == [
        1,
        2,
        3,
        2,
        1,
    ]
    assert gpus_of('"capabilities=compute,utility",count=2')[0] == 2
    for wrong in (
        lambda: ready_within_s("soon", None, 3, ""),
        lambda: bytes_of("much", ""),
        lambda: vcpu_millis_of("nan", ""),
        lambda: gpus_of("many"),
    ):
        with pytest.raises(UsageError):
            wrong()

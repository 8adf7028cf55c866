"""The parts of the command line that touch nothing: files to bodies, times, amounts, texts, events."""

import os
import stat
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.amounts import shown_bytes, shown_price
from moorage_cli.config import Config, checked_url, config_path, load_config, operator_key_path, save_config
from moorage_cli.container_file import (
    DeployOptions,
    deploy_body,
    load_container_file,
    name_of_image,
    provider_of_image,
)
from moorage_cli.errors import MEANINGS, CliError, ExitCode, api_error, exit_codes_text
from moorage_cli.progress import describe, plain_line
from moorage_cli.secret_values import expanded, read_environment_file, read_secret
from moorage_cli.server_sent_events import Event, events_of, lines_of
from moorage_cli.terminal_text import plain, plain_paragraphs, safe_line
from moorage_cli.times import parse_duration, shown_age, time_after, time_before

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_config_is_kept_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cli.toml"
    config = Config("http://[::1]:8080", 'a"b\\c\nü𝄞', "prj_one")
    save_config(path, Config("http://old", "old"))
    save_config(path, config)
    assert load_config(path) == config
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["cli.toml"]
    assert "token" not in repr(config).replace("token=", "")


def test_a_broken_config_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "cli.toml"
    assert load_config(path) == Config()
    path.write_text("url = ")
    with pytest.raises(CliError, match="Cannot read"):
        load_config(path)


def test_where_the_config_lies() -> None:
    assert config_path({"MOORAGE_CLI_CONFIG": "/x/y", "XDG_CONFIG_HOME": "/z"}) == Path("/x/y")
    assert config_path({"XDG_CONFIG_HOME": "/z"}) == Path("/z/moorage/cli.toml")
    assert config_path({}) == Path.home() / ".config/moorage/cli.toml"


def test_where_the_operators_key_lies() -> None:
    assert operator_key_path({"MOORAGE_HOME": "/m"}, True) == Path("/m/operator-key")
    assert operator_key_path({}, True) == Path("/var/lib/moorage/operator-key")
    assert operator_key_path({}, False) == Path.home() / ".local/share/moorage/operator-key"


@pytest.mark.parametrize(
    ("given_url", "wanted"),
    [
        ("http://h:1/", "http://h:1"),
        ("h:8080", "http://h:8080"),
        ("https://h/moorage/", "https://h/moorage"),
    ],
)
def test_addresses(given_url: str, wanted: str) -> None:
    assert checked_url(given_url) == wanted


@pytest.mark.parametrize("bad", ["ftp://h", "http://", "http://h/?a=1", ""])
def test_what_is_no_address(bad: str) -> None:
    with pytest.raises(CliError) as caught:
        checked_url(bad)
    assert caught.value.exit_code is ExitCode.USAGE


def test_the_chat_example_needs_nothing_but_itself() -> None:
    body = deploy_body(load_container_file(EXAMPLES / "chat/container.toml", {}), DeployOptions(), {})
    assert body == tomllib.loads((EXAMPLES / "chat/container.toml").read_text())


def test_a_list_becomes_a_command_line() -> None:
    body = load_container_file(EXAMPLES / "vllm/container.toml", {})
    assert body["start_command"].startswith("vllm serve Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0 --port 8000")


def test_secrets_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    file = tmp_path / "container.toml"
    (tmp_path / "token").write_text("from-file\n")
    file.write_text(
        'image = "ghcr.io/a/b"\n[registry]\nusername = "u"\npassword = "${PASSWORD}"\n'
        '[env]\nA = "x-${ONE}"\nB = { file = "token" }\nC = 20\nD = true\nE = "$${ONE}"\n'
    )
    body = load_container_file(file, {"PASSWORD": "secret", "ONE": "1"})
    assert body["registry"]["password"] == "secret"
    assert body["env"] == {"A": "x-1", "B": "from-file", "C": "20", "D": "true", "E": "${ONE}"}
    with pytest.raises(CliError, match=r"registry.password needs the environment variable PASSWORD"):
        load_container_file(file, {})


def test_a_password_may_lie_in_a_file_beside_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "container.toml"
    (tmp_path / "password").write_text("secret\n")
    file.write_text('image = "a"\n[registry]\nusername = "u"\npassword_file = "password"\n')
    assert load_container_file(file, {})["registry"] == {"username": "u", "password": "secret"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image = ", "not valid TOML"),
        ('env = "x"', "must be a table"),
        ("[env]\nA = []", "env.A must be"),
        ('[env]\nA = "${B:-x}"', "is not"),
        ('[env]\nA = "${B"', "is not"),
        ('[registry]\npassword = "x"\npassword_file = "y"', "not both"),
    ],
)
def test_mistakes_in_a_settings_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "container.toml"
    file.write_text(text)
    with pytest.raises(CliError, match=message) as caught:
        load_container_file(file, {})
    assert caught.value.exit_code is ExitCode.USAGE


def test_options_win_over_the_file() -> None:
    file = {
        "name": "a",
        "image": "x/a",
        "resources": {"mode": "general", "instance_type": "cpu-large"},
        "env": {"A": "1", "B": "2"},
        "health_check": {"path": "/a"},
    }
    options = DeployOptions(
        name="b", min_replicas=2, health_timeout_s=30, environment=("B=3=3", "HOME"), start_command="run it"
    )
    body = deploy_body(file, options, {"HOME": "/h"})
    assert body == {
        "name": "b",
        "image": "x/a",
        "registry": {"provider": "docker-hub"},
        "resources": {
            "mode": "autoscaling",
            "instance_type": "cpu-large",
            "min_replicas": 2,
            "max_replicas": 2,
        },
        "env": {"A": "1", "B": "3=3", "HOME": "/h"},
        "health_check": {"path": "/a", "timeout_s": 30},
        "start_command": "run it",
    }
    assert file["name"] == "a", "the file's body is not changed"


def test_an_image_is_enough() -> None:
    assert deploy_body({}, DeployOptions(image="local/chat:latest"), {}) == {
        "name": "chat",
        "image": "local/chat:latest",
        "registry": {"provider": "local"},
        "resources": {"mode": "general", "instance_type": "cpu-small"},
    }


@pytest.mark.parametrize(
    "options",
    [
        DeployOptions(),
        DeployOptions(image="a", username="u"),
        DeployOptions(image="a", environment=("NOT_SET",)),
    ],
)
def test_what_cannot_be_deployed(options: DeployOptions) -> None:
    with pytest.raises(CliError) as caught:
        deploy_body({}, options, {})
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_wrong_count_is_left_for_the_api_to_refuse() -> None:
    body = deploy_body({}, DeployOptions(image="a", min_replicas=0, max_replicas=3), {})
    assert body["resources"]["min_replicas"] == 0


@pytest.mark.parametrize(
    ("image", "name", "provider"),
    [
        ("nginx", "nginx", "docker-hub"),
        ("vllm/vllm-openai:v0.11.0", "vllm-openai", "docker-hub"),
        ("docker.io/library/x@sha256:" + "a" * 64, "x", "docker-hub"),
        ("ghcr.io/acme/chat:1", "chat", "github"),
        ("nvcr.io/nvidia/tritonserver:25.01", "tritonserver", "nvidia"),
        ("europe-docker.pkg.dev/p/r/i", "i", "google"),
        ("123456789012.dkr.ecr.eu-west-1.amazonaws.com/a", "a", "aws"),
        ("acme.azurecr.io/a", "a", "azure"),
        ("127.0.0.1:5000/a", "a", "other"),
        ("localhost/a", "a", "other"),
        ("local/chat", "chat", "local"),
    ],
)
def test_what_an_image_says(image: str, name: str, provider: str) -> None:
    assert (name_of_image(image), provider_of_image(image)) == (name, provider)


def test_environment_files(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# a\n\nA=1\nexport B = 'two words' \nC=a=b\nD=\"\n")
    assert read_environment_file(file) == {"A": "1", "B": "two words", "C": "a=b", "D": '"'}
    file.write_text("A=1\nnonsense\n")
    with pytest.raises(CliError, match="line 2"):
        read_environment_file(file)


def test_secret_files(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" with space \r\n")
    assert read_secret(file) == " with space "
    file.write_text("\n")
    with pytest.raises(CliError, match="is empty"):
        read_secret(file)
    with pytest.raises(CliError, match="No such file"):
        read_secret(tmp_path / "absent")


@given(st.text(alphabet="ab$ {}_1"))
def test_expansion_changes_nothing_without_references(text: str) -> None:
    if "${" not in text:
        assert expanded(text, {}, "x") == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("30d", 30 * 86400), ("2w", 14 * 86400), ("0s", 0)],
)
def test_durations(text: str, wanted: int) -> None:
    assert parse_duration(text) == timedelta(seconds=wanted)


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "-5m", "1.5h", "10M", "9999999999s"])
def test_what_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


def test_times_are_before_or_after_now_or_themselves() -> None:
    assert time_before("10m", NOW, "--since") == NOW - timedelta(minutes=10)
    assert time_after("10m", NOW, "--expires") == NOW + timedelta(minutes=10)
    assert time_before("2026-01-01T00:00:00Z", NOW, "--since") == datetime(2026, 1, 1, tzinfo=UTC)
    assert time_before("2026-01-01T00:00", NOW, "--since").tzinfo is not None
    for wrong in ("soon", "999999999w"):
        with pytest.raises(CliError, match="--since must be a duration"):
            time_before(wrong, NOW, "--since")


@pytest.mark.parametrize(
    ("age_s", "wanted"),
    [(-5, "0s"), (41, "41s"), (119, "119s"), (125, "2m"), (7300, "2h"), (9 * 86400, "9d")],
)
def test_ages(age_s: int, wanted: str) -> None:
    assert shown_age(NOW - timedelta(seconds=age_s), NOW) == wanted


@pytest.mark.parametrize(
    ("microusd", "wanted"),
    [
        (10_000, "0.01"),
        (5_000, "0.005"),
        (4_990_000, "4.99"),
        (2_000_000, "2.00"),
        (-1_500_000, "-1.50"),
        (1, "0.000001"),
    ],
)
def test_prices_are_never_rounded(microusd: int, wanted: str) -> None:
    assert shown_price(microusd) == wanted


@pytest.mark.parametrize(
    ("count", "wanted"),
    [(0, "0 B"), (1023, "1023 B"), (2**20, "1 MiB"), (180 * 2**30, "180 GiB"), (2**43, "8192 GiB")],
)
def test_sizes(count: int, wanted: str) -> None:
    assert shown_bytes(count) == wanted


@given(st.text())
def test_nothing_but_colours_reaches_the_terminal(text: str) -> None:
    shown = safe_line(text)
    rest = shown.replace("\x1b[0m", "")
    assert not any(ord(character) < 0x20 and character != "\t" and character != "\x1b" for character in rest)
    assert not any(0x7F <= ord(character) < 0xA0 for character in rest)
    assert "\x1b" not in plain(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain\ttext ü\r\n", "plain\ttext ü"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("\x1b[2Jcleared", "␛[2Jcleared"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("a\rb", "a␍b"),
        ("\x9b2J", "�2J"),
        ("a\u202eb", "a�b"),
    ],
)
def test_hostile_lines_are_inert(text: str, wanted: str) -> None:
    assert safe_line(text) == wanted


def test_paragraphs_keep_their_line_ends() -> None:
    assert plain_paragraphs("a\nb\x1b[1mc") == "a\nb␛[1mc"
    assert plain("a\nb") == "a␊b"


def test_events_end_with_a_blank_line() -> None:
    text = ': comment\nretry: 1000\n\nid: 7\ndata: {"a":\ndata: "x\u2028y"}\n\nevent: end\r\ndata: z\r\n\r\ndata: cut off'
    content = text.encode()
    for size in (1, 3, len(content)):
        chunks = [content[at : at + size] for at in range(0, len(content), size)]
        assert list(events_of(lines_of(chunks))) == [
            Event('{"a":\n"x\u2028y"}', "message", "7"),
            Event("z", "end", "7"),
        ]


def test_progress_in_words() -> None:
    pulling = {"state": "PULLING", "progress": {"phase": "pull", "done_bytes": 2**20, "total_bytes": 2**21}}
    starting = {
        "state": "STARTING",
        "progress": {"phase": "start", "limit_s": 60},
        "message": "listens on 127.0.0.1",
    }
    assert describe(pulling, 3) == "1 MiB of 2 MiB"
    assert describe(starting, 3.4) == "3 s of at most 60 s · listens on 127.0.0.1"
    assert describe({"state": "PENDING", "progress": None}, 0.1) == ""

    downloading = {
        "state": "STARTING",
        "reason": "port_not_listening",
        "message": "Nothing listens on port 8080 yet; it has 1800 s.",
        "progress": {
            "phase": "start", "limit_s": 1800, "step": "download", "cache_bytes": 2**26, "bytes_per_s": 2**20,
        },
    }  # fmt: skip
    words = "downloading weights: 64 MiB in the cache, 1 MiB/s"
    assert plain_line(downloading) == f"STARTING: {words}"
    assert describe(downloading, 3) == f"3 s of at most 1800 s · {words}"
    hangs = downloading | {"progress": {"phase": "start", "limit_s": 1800, "step": "load"}}
    assert plain_line(hangs).endswith("Nothing listens on port 8080 yet; it has 1800 s.")
    assert plain_line(starting | {"reason": "listens_on_loopback_only"}) == (
        "STARTING listens_on_loopback_only: listens on 127.0.0.1"
    )


@pytest.mark.parametrize(
    ("status", "wanted"),
    [(400, 2), (401, 5), (402, 1), (403, 6), (404, 7), (409, 1), (422, 2), (429, 1), (500, 1)],
)
def test_exit_codes(status: int, wanted: int) -> None:
    assert api_error(status, {"detail": "x"}).exit_code == wanted


def test_every_exit_code_is_explained() -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert all(str(code.value) in exit_codes_text() for code in ExitCode)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            {"step": "download", "cache_bytes": 3 * 2**30, "bytes_per_s": 200 * 2**20},
            "downloading weights: 3 GiB in the cache, 200 MiB/s",
        ),
        (
            {"step": "compile", "cache_bytes": 1, "waiting": 1},
            "compiling · 1 more replica waits for the cache",
        ),
        (
            {"step": "load", "cache_bytes": 1, "waiting": 2},
            "loading the model · 2 more replicas wait for the cache",
        ),
    ],
)
def test_what_a_start_waits_for(step: dict[str, object], words: str) -> None:
    progress = {"phase": "start", "limit_s": 60, **step}
    assert describe({"state": "STARTING", "progress": progress}, 3) == f"3 s of at most 60 s · {words}"
    assert describe({"state": "RUNNING", "progress": progress}, 3) == f"3 s · next replica: {words}"


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        ({"phase": "pull", "done_bytes": 0, "total_bytes": 0}, "pulling the image"),
        (
            {"phase": "pull", "done_bytes": 2**20, "total_bytes": 2**21},
            "pulling the image: 1 MiB of 2 MiB",
        ),
        ({"phase": "start", "limit_s": 60}, "starting"),
    ],
)
def test_what_the_next_replica_does_while_others_serve(progress: dict[str, object], words: str) -> None:
    assert describe({"state": "RUNNING", "progress": progress}, 1) == f"next replica: {words}"

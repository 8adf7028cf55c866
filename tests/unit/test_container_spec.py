import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.spec import (
    RegistryProvider,
    checked_environment,
    checked_health_path,
    chosen_port,
    complete_image,
    split_command,
)
from moorage.kit.names import checked_name


@pytest.mark.parametrize(
    ("image", "provider", "complete"),
    [
        ("nginx", "docker-hub", "docker.io/library/nginx:latest"),
        ("vllm/vllm-openai:v1", "docker-hub", "docker.io/vllm/vllm-openai:v1"),
        ("docker.io/acme/chat", "docker-hub", "docker.io/acme/chat:latest"),
        ("acme/chat:1", "github", "ghcr.io/acme/chat:1"),
        ("ghcr.io/acme/chat:1", "github", "ghcr.io/acme/chat:1"),
        ("registry.example.com:5000/a/b:c", "other", "registry.example.com:5000/a/b:c"),
        ("local/chat", "local", "local/chat:latest"),
        (f"acme/chat@sha256:{'a' * 64}", "quay", f"quay.io/acme/chat@sha256:{'a' * 64}"),
        (
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com/m:1",
            "aws",
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com/m:1",
        ),
    ],
)
def test_images_are_made_whole(image: str, provider: str, complete: str) -> None:
    assert complete_image(image, RegistryProvider(provider)) == complete


@pytest.mark.parametrize(
    ("image", "provider"),
    [
        ("", "docker-hub"),
        ("UPPER/case", "docker-hub"),
        ("evil.example.com/chat", "docker-hub"),
        ("ghcr.io.evil.com/chat", "github"),
        ("chat", "other"),
        ("chat", "aws"),
        ("chat:latest", "local"),
        ("docker.io/local/chat", "local"),
        ("a b", "docker-hub"),
        ("a\nb", "docker-hub"),
        ("a;rm -rf", "docker-hub"),
        ("chat@sha256:short", "quay"),
        ("../chat", "quay"),
    ],
)
def test_other_images_are_refused(image: str, provider: str) -> None:
    with pytest.raises(ValueError):
        complete_image(image, RegistryProvider(provider))


@pytest.mark.parametrize("name", ["a", "llama-3.1-8b chat", "A" * 63])
def test_names(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a" * 64, "<script>", "a\n", "../x", "a;b", "ä"])
def test_hostile_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 63"):
        checked_name(name)


@given(st.text(string.printable, max_size=80))
def test_a_name_that_passes_is_harmless(name: str) -> None:
    try:
        checked_name(name)
    except ValueError:
        return
    assert not set(name) & set("<>&\"'`$;|\\/\n\r\t\x00")


def test_commands_are_split_as_a_shell_would_and_never_run_by_one() -> None:
    assert split_command("python -m 'my app' $(whoami)") == ("python", "-m", "my app", "$(whoami)")


@pytest.mark.parametrize("command", ["", "   ", "'open", "a\x00b"])
def test_commands_that_cannot_be_split(command: str) -> None:
    with pytest.raises(ValueError):
        split_command(command)


@pytest.mark.parametrize("path", ["health", "/a b", "/a\nb", "/" + "x" * 200, '/"'])
def test_health_paths(path: str) -> None:
    with pytest.raises(ValueError):
        checked_health_path(path)
    assert checked_health_path("/v1/health?full=1") == "/v1/health?full=1"


def test_environment_names_and_values() -> None:
    assert checked_environment({"A_1": "x"}) == {"A_1": "x"}
    for wrong in ({"1A": "x"}, {"A=B": "x"}, {"A": "x\x00"}, {"A": "x" * 32_769}, {"": "x"}):
        with pytest.raises(ValueError):
            checked_environment(wrong)


@pytest.mark.parametrize(("character", "fits"), [("x", True), ("漢", False)])
def test_an_environment_is_measured_in_bytes(character: str, fits: bool) -> None:
    """What it costs to hold and to search for is its bytes."""
    environment = {f"VALUE_{number}": character * 32_000 for number in range(3)}
    with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="256 KiB"):
        checked_environment(environment)


@pytest.mark.parametrize(
    ("setting", "exposed", "port"),
    [(9000, (80,), 9000), (None, (80,), 80), (None, (80, 81), 8000), (None, (), 8000)],
)
def test_the_port(setting: int | None, exposed: tuple[int, ...], port: int) -> None:
    assert chosen_port(setting, exposed) == port

"""`moor deploy hf:…` and `moor templates`."""

import json
from pathlib import Path

import pytest
from cli_fixtures import config as config
from cli_fixtures import fake as fake
from cli_fixtures import moor as moor
from cli_server import FakeMoorage, Moor

QWEN = "hf:Qwen/Qwen2.5-7B-Instruct"


def test_deploy_a_model(moor: Moor, fake: FakeMoorage, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hf_secret\n")
    result = moor(
        "deploy", QWEN, "--template", "vllm", "--context", "8192", "--instance-type", "l40s-48gb",
        "--hub-token-file", str(token), "-e", "OWN=1", "--no-wait",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "It fits on l40s-48gb." in result.stderr
    (body,) = fake.asked("POST", "/projects/prj_one/models/deploy")
    assert body == {
        "model": QWEN,
        "template": "vllm",
        "context_tokens": 8192,
        "hub_token": "hf_secret",
        "env": {"OWN": "1"},
        "resources": {"mode": "general", "instance_type": "l40s-48gb"},
    }
    assert "hf_secret" not in result.stdout + result.stderr


def test_the_api_chooses_the_type_unless_somebody_says(moor: Moor, fake: FakeMoorage) -> None:
    moor("deploy", QWEN, "--no-wait")
    moor("deploy", QWEN, "--max", "3", "--no-wait", "-e", "HF_TOKEN=hf_mine")
    plain, scaled = fake.asked("POST", "/projects/prj_one/models/deploy")
    assert plain == {"model": QWEN}
    assert scaled["resources"] == {
        "mode": "autoscaling", "instance_type": "l40s-48gb", "min_replicas": 1, "max_replicas": 3
    }  # fmt: skip
    assert scaled["hub_token"] == "hf_mine"


def test_whose_machines_is_asked_and_said(moor: Moor, fake: FakeMoorage) -> None:
    moor("deploy", QWEN, "--infrastructure", "community", "--no-wait")
    for path in ("resolve", "deploy"):
        (body,) = fake.asked("POST", f"/projects/prj_one/models/{path}")
        assert body == {"model": QWEN, "infrastructure": "community"}


def test_a_dry_run_makes_nothing(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("deploy", QWEN, "--dry-run")
    assert result.exit_code == 0, result.stderr
    for words in ("7.6 B", "bf16", "15.2 GB", "vllm (Chat under load)", "Fits with --context 6144.", "1.55"):
        assert words in result.stdout
    assert fake.asked("POST", "/projects/prj_one/models/deploy") == []
    machine = moor("deploy", QWEN, "--dry-run", "--json")
    assert json.loads(machine.stdout)["instance_type"] == "l40s-48gb"


def test_what_the_hub_does_not_have(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("deploy", "hf:acme/gone", "--json")
    assert result.exit_code != 0
    assert json.loads(result.stderr)["error"]["code"] == "model_not_found"
    assert fake.asked("POST", "/projects/prj_one/models/deploy") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("vllm/vllm-openai",), "is not a model"),
        ((QWEN, "--image", "x", "--port", "80"), "says --image, --port"),
        ((QWEN, "-f", "container.toml"), "not both"),
        (("--image", "x", "--context", "5"), "are for a model"),
        (("--image", "x", "--dry-run"), "are for a model"),
    ],
)
def test_usage(moor: Moor, arguments: tuple[str, ...], words: str) -> None:
    result = moor("deploy", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_templates(moor: Moor) -> None:
    result = moor("templates")
    assert result.exit_code == 0, result.stderr
    for words in ("vllm", "Chat under load", "safetensors", "0.80", QWEN):
        assert words in result.stdout
    assert json.loads(moor("templates", "--json").stdout)[0]["name"] == "vllm"

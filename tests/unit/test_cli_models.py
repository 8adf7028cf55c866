"""`moor deploy hf:…` and `moor templates`."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from cli_fixtures import config as config
from cli_fixtures import fake as fake
from cli_fixtures import moor as moor
from cli_server import FakeMoorage, Moor

from moorage_cli.container_file import DeployOptions
from moorage_cli.errors import UsageError
from moorage_cli.first_answer import in_words
from moorage_cli.model_deployment import ModelOptions, model_body, with_resources
from moorage_cli.model_names import usual_name

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


@pytest.mark.parametrize(
    ("pasted", "name"),
    [
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/main?x=1", "Qwen3-8B"),
        ("https://huggingface.co/Qwen/Qwen3-8B", "Qwen3-8B"),
        ("hf.co/Qwen/Qwen3-8B-GGUF:Q4_K_M", "Qwen3-8B-GGUF"),
        ("HF:Qwen/Qwen3-8B@v1.0", "Qwen3-8B"),
    ],
)
def test_what_people_copy_goes_to_the_api_as_it_is(
    moor: Moor, fake: FakeMoorage, pasted: str, name: str
) -> None:
    assert moor("deploy", pasted, "--no-wait").exit_code == 0
    assert fake.asked("POST", "/projects/prj_one/models/deploy") == [{"model": pasted}]
    assert usual_name(pasted) == name


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


def test_no_option_of_a_deployment_is_dropped_in_silence(tmp_path: Path) -> None:
    """Each is sent or refused, also one that is added some day."""
    variables = tmp_path / "variables"
    variables.write_text("FROM_FILE=1\n")
    given: dict[str, object] = {
        "min_replicas": 2, "max_replicas": 7, "port": 80, "health_timeout_s": 60, "sleep_after_s": 600,
        "as_proposed": True, "environment": ("OWN=1",), "environment_file": variables,
    }  # fmt: skip
    model, found = ModelOptions(QWEN), {"instance_type": "l40s-48gb"}
    plain = with_resources(model_body(model, DeployOptions(), {}), DeployOptions(), found)
    for field in fields(DeployOptions):
        options = DeployOptions(**{field.name: given.get(field.name, "said")})  # type: ignore[arg-type]
        try:
            sent = with_resources(model_body(model, options, {}), options, found)
        except UsageError:
            continue
        assert sent != plain, field.name


def test_it_sleeps_if_that_is_asked(moor: Moor, fake: FakeMoorage) -> None:
    moor("deploy", QWEN, "--sleep-after", "600", "--no-wait")
    assert fake.asked("POST", "/projects/prj_one/models/resolve") == [{"model": QWEN}]
    assert fake.asked("POST", "/projects/prj_one/models/deploy") == [{"model": QWEN, "sleep_after_s": 600}]


def test_a_dry_run_makes_nothing(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("deploy", QWEN, "--dry-run")
    assert result.exit_code == 0, result.stderr
    for words in ("7.6 B", "bf16", "15.2 GB", "vllm (Chat under load)", "Fits with --context 6144.", "1.55"):
        assert words in result.stdout
    header, short, _ = result.stdout.splitlines()[-3:]
    assert header.split()[2:5] == ["MEMORY", "USABLE", "NEEDED"]
    assert short.split()[3:7:2] == ["22.5", "31.6"], "which is 9.1 GB short"
    assert fake.asked("POST", "/projects/prj_one/models/deploy") == []
    machine = moor("deploy", QWEN, "--dry-run", "--json")
    assert json.loads(machine.stdout)["instance_type"] == "l40s-48gb"


def test_how_long_until_the_first_answer_is_said_where_it_was_measured(moor: Moor, fake: FakeMoorage) -> None:
    words = "about 4 min 3 s: image 1 min 4 s, weights 2 min 10 s, loading 49 s; a later start about 50 s"
    assert words in moor("deploy", QWEN, "--dry-run").stdout
    assert f"Until the first answer: {words}." in moor("deploy", QWEN, "--no-wait").stderr
    # Of a type on which it does not fit, there is nothing to say.
    assert "first answer" not in moor("deploy", QWEN, "--dry-run", "--instance-type", "l4-24gb").stdout


@pytest.mark.parametrize(
    ("start", "image_s", "words"),
    [
        ((None, None, None), None, "not measured here yet"),
        ((130, None, None), 41.2, "image 41 s, weights 2 min 10 s; loading not measured here yet"),
        (
            (None, 3900, 60),
            None,
            "loading 1 h 5 min; image and weights not measured here yet; a later start about 1 min",
        ),
    ],
)
def test_what_nobody_has_measured_is_unknown(
    start: tuple[int | None, int | None, int | None], image_s: float | None, words: str
) -> None:
    download_s, load_s, again_s = start
    known = {"image_bytes_per_s": None, "download_s": download_s, "load_s": load_s, "again_s": again_s}
    assert in_words({**known, "own": False}, image_s) == words  # type: ignore[typeddict-item]


def test_a_gated_model_says_which_option_takes_the_token(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("deploy", "hf:acme/gated")
    assert result.exit_code != 0
    assert "--hub-token-file" in result.stderr


def test_a_refusal_is_the_sentence_that_helps(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("deploy", QWEN, "--instance-type", "l4-24gb")
    assert result.exit_code == 2
    assert result.stderr.strip() == (
        "Error: It does not fit on l4-24gb: it is 9.1 GB short. It fits on l40s-48gb, or a context of 6,144 tokens."
    )
    told = json.loads(moor("deploy", QWEN, "--instance-type", "l4-24gb", "--json").stderr)["error"]
    assert (told["code"], len(told["errors"])) == ("model_does_not_fit", 1)
    unknown = moor("deploy", QWEN, "--instance-type", "nope")
    assert "`moor instance-types` lists what there is." in unknown.stderr


def test_what_fits_nowhere_is_said_once(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("deploy", "hf:acme/huge")
    assert (result.exit_code, result.stderr.count("does not fit")) == (2, 1)
    assert fake.asked("POST", "/projects/prj_one/models/deploy") == []


def test_what_the_hub_does_not_have(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("deploy", "hf:acme/gone", "--json")
    assert result.exit_code != 0
    assert json.loads(result.stderr)["error"]["code"] == "model_not_found"
    assert fake.asked("POST", "/projects/prj_one/models/deploy") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("vllm/vllm-openai",), "Write hf:vllm/vllm-openai for a model, or --image vllm/vllm-openai for"),
        (("Qwen/Qwen3-8B",), "is not a model. Write hf:Qwen/Qwen3-8B for a model."),
        (("nginx:1",), "Write hf:ORGANIZATION/NAME, or --image nginx:1 for an image."),
        ((QWEN, "--image", "x", "--port", "80"), "sets --image, --port. Leave them out"),
        ((QWEN, "--as-proposed"), "sets --as-proposed. Leave it out"),
        ((QWEN, "-f", "container.toml"), "one of these"),
        (("--image", "x", "--context", "5"), "need a model"),
        ((QWEN, "--context", "0"), "--context 0 is too short"),
        ((QWEN, "--requests", "0"), "Give it 1 or more"),
        (("--image", "x", "--dry-run"), "need a model"),
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

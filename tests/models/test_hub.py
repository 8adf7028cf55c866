"""A model is looked up at a hub: what is found, what is refused in which sentence, and where a token goes."""

import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from moorage.kit.clock import system_clock
from moorage.kit.errors import ModelError, UnavailableError
from moorage.models import hub
from moorage.models.facts import ModelFacts, NotUsableError, chosen_gguf, facts_from
from moorage.models.gguf_header import config_of_header
from moorage.models.hub import look_up_model
from moorage.models.kinds import ModelFormat, ModelKind
from moorage.models.planning import PUBLIC_HUB, Wish, plan
from moorage.models.reference import parse_asked, parse_reference
from moorage.models.shape import Config
from moorage.outbound import transport
from tests.models.hub_stand_in import (
    COMMIT,
    GGUF_ENTRIES,
    STRANGERS_TOKEN,
    TOKEN,
    Hub,
    Repository,
    gguf_file,
    running_hub,
)
from tests.ports import free_port

QWEN = "Qwen/Qwen2.5-7B-Instruct"
GGUF = "Qwen/Qwen2.5-7B-Instruct-GGUF"
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


class Asked:
    def __init__(self, hub: Hub, url: str) -> None:
        self.hub = hub
        self.url = url

    async def __call__(self, model: str, token: str | None = None, gguf: str | None = None) -> ModelFacts:
        return await look_up_model(self.url, parse_reference(model), token, gguf=gguf, clock=system_clock)


@pytest.fixture(name="asked")
async def asked_fixture() -> AsyncIterator[Asked]:
    async with running_hub() as (hub, url):
        yield Asked(hub, url)


async def test_a_public_model(asked: Asked) -> None:
    asked.hub.add(QWEN)
    facts = await asked(f"hf:{QWEN}")
    assert (facts.kind, facts.format, facts.commit) == (ModelKind.CHAT, ModelFormat.SAFETENSORS, COMMIT)
    assert facts.tensor_types == {"BF16": 7_615_616_512}
    assert facts.config["num_hidden_layers"] == 28
    assert facts.text_bytes > facts.config_bytes > 100
    assert (facts.license, facts.files, facts.gated, facts.private) == ("apache-2.0", 4, False, False)
    assert facts.download_bytes == 7_615_616_512 * 2 + 4096
    assert [path for path, _ in asked.hub.asked] == [
        f"/api/models/{QWEN}/revision/main",
        f"/{QWEN}/resolve/{COMMIT}/config.json",
    ], "the file is that of the commit that was described"


async def test_a_certain_revision(asked: Asked) -> None:
    asked.hub.add(QWEN)
    assert (await asked(f"hf:{QWEN}@v1.0")).reference.revision == "v1.0"
    with pytest.raises(ModelError, match="has no revision v9") as refused:
        await asked(f"hf:{QWEN}@v9")
    assert refused.value.code == "revision_not_found"


async def test_one_that_does_not_exist(asked: Asked) -> None:
    for token, hint in ((None, "a private model needs a token"), (TOKEN, "the token may not read")):
        with pytest.raises(ModelError, match=hint) as refused:
            await asked("hf:nobody/nothing", token)
        assert refused.value.code == "model_not_found"


async def test_a_private_one_is_shown_to_its_readers_alone(asked: Asked) -> None:
    asked.hub.add(QWEN, private=True)
    assert (await asked(f"hf:{QWEN}", TOKEN)).private
    for token in (None, STRANGERS_TOKEN):
        with pytest.raises(ModelError) as refused:
            await asked(f"hf:{QWEN}", token)
        assert refused.value.code == "model_not_found"


async def test_a_gated_one_says_what_to_do(asked: Asked) -> None:
    asked.hub.add(LLAMA, gated="manual")
    for token, hint in (
        (None, "give a token of the account that accepted it"),
        (STRANGERS_TOKEN, "with the account that the token"),
    ):
        with pytest.raises(ModelError, match="accept its licence") as refused:
            await asked(f"hf:{LLAMA}", token)
        assert refused.value.code == "model_gated"
        assert hint in refused.value.message
    assert (await asked(f"hf:{LLAMA}", TOKEN)).gated


async def test_a_token_that_is_refused_never_comes_back(asked: Asked) -> None:
    asked.hub.add(QWEN)
    with pytest.raises(ModelError, match="refused the token") as refused:
        await asked(f"hf:{QWEN}", "hf_wrong")
    assert "hf_wrong" not in repr(refused.value)
    assert {authorization for _, authorization in asked.hub.asked} == {"Bearer hf_wrong"}


async def test_a_token_does_not_follow_elsewhere(asked: Asked) -> None:
    """Nor does anybody else: where a hub sends us on to a private address, nothing is connected to."""
    asked.hub.add(QWEN)
    async with running_hub() as (other, url):
        other.add(QWEN)
        asked.hub.broken = RedirectResponse(f"{url}/api/models/{QWEN}/revision/main")
        with pytest.raises(UnavailableError, match="not") as refused:
            await asked(f"hf:{QWEN}", TOKEN)
        assert refused.value.code == "hub_unreachable"
        assert other.asked == []


async def test_gguf_files_beside_other_weights(asked: Asked) -> None:
    """They are there for whoever names one."""
    repository = asked.hub.add(QWEN)
    repository.files["m-q4_k_m.gguf"] = gguf_file(GGUF_ENTRIES)
    whole = await asked(f"hf:{QWEN}")
    assert (whole.format, whole.gguf) == (ModelFormat.SAFETENSORS, ())
    for file in ("Q4_K_M", "m-q4_k_m.gguf"):
        facts = await asked(f"hf:{QWEN}", gguf=file)
        assert facts.format is ModelFormat.GGUF
        found = plan(facts, Wish(gguf=file), PUBLIC_HUB)
        assert (found.gguf, found.template.name) == (facts.gguf[0], "llama-cpp")
    with pytest.raises(ModelError, match=r"has no GGUF file 'Q8_0'; it has Q4_K_M"):
        await asked(f"hf:{QWEN}", gguf="Q8_0")


def test_a_folder_names_its_quantisation() -> None:
    names = ["Q2_K/m-Q2_K.gguf", "UD-Q2_K/m-UD-Q2_K.gguf", "all/m-Q6_K.gguf", "all/m-Q8_0.gguf"]
    answer = {"siblings": [{"rfilename": name, "size": 10 + at} for at, name in enumerate(names)]}
    files = facts_from(parse_reference(f"hf:{GGUF}"), answer).gguf
    for folder in ("UD-Q2_K", "Q2_K"):
        assert chosen_gguf(files, folder).name == f"{folder}/m-{folder}.gguf"
    with pytest.raises(NotUsableError, match="has no GGUF file 'all'"):
        chosen_gguf(files, "all")


async def test_gguf_is_read_from_the_file_that_is_served(asked: Asked) -> None:
    asked.hub.repositories["Qwen/Qwen2.5-7B-Instruct-GGUF"] = Repository(
        files={
            "README.md": b"",
            "qwen2.5-7b-instruct-q2_k.gguf": 3_015_940_416,
            "qwen2.5-7b-instruct-q4_k_m.gguf": gguf_file(GGUF_ENTRIES),
            "qwen2.5-7b-instruct-q8_0-00001-of-00002.gguf": 4_000_000_000,
            "qwen2.5-7b-instruct-q8_0-00002-of-00002.gguf": 4_098_000_000,
        },
        description={"gguf": {"total": 7_615_616_512, "architecture": "qwen2"}},
    )
    facts = await asked("hf:Qwen/Qwen2.5-7B-Instruct-GGUF")
    assert facts.format is ModelFormat.GGUF
    assert [(one.tag, one.size_bytes) for one in facts.gguf] == [
        ("Q4_K_M", 1 << 20), ("Q2_K", 3_015_940_416), ("Q8_0", 8_098_000_000)
    ]  # fmt: skip
    assert facts.config["num_key_value_heads"] == 4
    assert facts.config["max_position_embeddings"] == 32768
    second = "qwen2.5-7b-instruct-q8_0-00002-of-00002.gguf"
    assert chosen_gguf(facts.gguf, second).name == second.replace("-00002-", "-00001-")
    with pytest.raises(ModelError, match=r"has no GGUF file 'Q3_K_M'; it has Q4_K_M, Q2_K, Q8_0"):
        await asked("hf:Qwen/Qwen2.5-7B-Instruct-GGUF", gguf="Q3_K_M")


async def test_a_header_is_read_off_the_loop(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def noted(beginning: bytes) -> Config:
        threads.append(threading.current_thread())
        return config_of_header(beginning)

    monkeypatch.setattr(hub, "config_of_header", noted)
    asked.hub.repositories[GGUF] = Repository(files={"m-q4_k_m.gguf": gguf_file(GGUF_ENTRIES)})
    await asked(f"hf:{GGUF}")
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_one_deadline_for_all_of_it(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning of a file is a stream, and streams may take their time; a lookup may not."""
    monkeypatch.setattr(hub, "_WHOLE_LOOKUP_S", 0.5, raising=False)
    monkeypatch.setattr(transport, "STREAM_PATIENCE_S", 5.0)
    asked.hub.repositories[GGUF] = Repository(files={"m-q4_k_m.gguf": gguf_file(GGUF_ENTRIES)})
    asked.hub.stalls = True
    with pytest.raises(UnavailableError, match="does not answer in time") as refused:
        await asked(f"hf:{GGUF}")
    assert refused.value.code == "hub_unreachable"


async def test_what_is_no_model(asked: Asked) -> None:
    chat = {"pipeline_tag": "text-generation"}
    cases: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
        ({"README.md": b""}, {}, "not_a_model", "has no weights"),
        (
            {
                "adapter_config.json": b'{"base_model_name_or_path": "Qwen/Qwen3-8B"}',
                "adapter_model.safetensors": 5,
            },
            {},
            "not_a_whole_model",
            "Deploy the model that it was made for, hf:Qwen/Qwen3-8B\\.",
        ),
        (
            {
                "adapter_config.json": b'{"base_model_name_or_path": "/home/me/model"}',
                "adapter_model.safetensors": 5,
            },
            chat,
            "not_a_whole_model",
            "Deploy the model that it was made for\\.",
        ),
        ({"model.safetensors": 5}, chat, "not_a_model", "has no configuration"),
        (
            {"model.safetensors": 5, "config.json": b"{}"},
            {"pipeline_tag": "fill-mask"},
            "no_template",
            "is for fill-mask",
        ),
        ({"model.safetensors": 5, "config.json": b"[1"}, chat, "hub_misbehaves", "cannot read"),
        ({"model.safetensors": 5, "config.json": b"3"}, chat, "not_a_model", "not a configuration"),
        (
            {"model.safetensors": 5, "config.json": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"},
            chat,
            "hub_misbehaves",
            "too long to read",
        ),
        ({"model.gguf": b"GARBAGE" * 10}, {}, "not_a_model", "is not a GGUF file"),
        ({"model.gguf": b"GGUF" + b"\xff" * 60}, {}, "not_a_model", "does not say its architecture"),
    ]
    for files, description, code, clause in cases:
        asked.hub.repositories["acme/thing"] = Repository(files=files, description=description)
        with pytest.raises(ModelError, match=clause) as refused:
            await asked("hf:acme/thing")
        assert refused.value.code == code


async def test_a_hub_that_misbehaves(asked: Asked) -> None:
    cases = [
        (JSONResponse({}, 500), "HTTP status 500"),
        (JSONResponse({}, 429), "in 60 s, or give a token"),
        (JSONResponse({}, 429, {"Retry-After": "7"}), "in 7 s,"),
        (JSONResponse({}, 429, {"Retry-After": "999999"}), "in 600 s,"),
        (JSONResponse({}, 429, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}), "in 60 s,"),
        (Response(b"x" * (9 << 20)), "sent more than"),
        (RedirectResponse("http://169.254.169.254/latest"), "not reached by HTTPS"),
    ]
    for answer, clause in cases:
        asked.hub.broken = answer
        with pytest.raises(UnavailableError, match=clause) as refused:
            await asked(f"hf:{QWEN}")
        assert refused.value.code == "hub_unreachable"


@pytest.mark.parametrize("body", ["<!doctype html><title>Sign in</title>", "[]", "null"])
async def test_what_answers_is_not_a_hub(asked: Asked, body: str) -> None:
    asked.hub.broken = Response(body)
    with pytest.raises(ModelError) as refused:
        await asked(f"hf:{QWEN}")
    assert refused.value.code == "hub_misbehaves"
    assert refused.value.message == (
        f"{asked.url.partition('://')[2]} answered something that is not a model's description. "
        "Try again; if it stays, tell the operator."
    )


async def test_a_hub_that_is_away() -> None:
    with pytest.raises(UnavailableError, match="refuses connections") as refused:
        await look_up_model(
            f"http://127.0.0.1:{free_port()}", parse_reference(f"hf:{QWEN}"), TOKEN, clock=system_clock
        )
    assert refused.value.code == "hub_unreachable"


@pytest.mark.parametrize(
    "text",
    ["Qwen/Qwen2.5", "hf:Qwen", "hf:Qwen/../x", "hf:a/b/c", "hf:a/b@", "hf:a/b@x/../y", "hf:a/b c", "hf:-a/b", "hf:" + "a" * 400 + "/b"],
)  # fmt: skip
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(ValueError, match="must look like hf:"):
        parse_asked(text)


@pytest.mark.parametrize(
    ("pasted", "reference", "file"),
    [
        ("hf:org/name@v1.0", "hf:org/name@v1.0", None),
        ("HF:org/Name/", "hf:org/Name", None),
        ("https://huggingface.co/org/name", "hf:org/name", None),
        ("http://www.huggingface.co/org/name/?not-for-all-audiences=true#usage", "hf:org/name", None),
        ("huggingface.co/org/name", "hf:org/name", None),
        ("HTTPS://HF.co/org/name/", "hf:org/name", None),
        ("hf.co/org/name-GGUF:Q4_K_M", "hf:org/name-GGUF", "Q4_K_M"),
        ("https://huggingface.co/org/name/tree/main", "hf:org/name", None),
        ("https://huggingface.co/org/name/tree/v1.0", "hf:org/name@v1.0", None),
        ("https://huggingface.co/org/name/tree/refs%2Fpr%2F7", "hf:org/name@refs/pr/7", None),
        ("https://huggingface.co/org/name/tree/refs/pr/7", "hf:org/name@refs/pr/7", None),
        ("https://huggingface.co/org/name/blob/main/config.json", "hf:org/name", None),
        ("https://huggingface.co/org/name/blob/main/m-Q8_0.gguf", "hf:org/name", "m-Q8_0.gguf"),
        (
            "https://huggingface.co/org/name/resolve/v1/Q2_K/m.gguf?download=true",
            "hf:org/name@v1",
            "Q2_K/m.gguf",
        ),
        ("https://huggingface.co/org/name/discussions/3", "hf:org/name", None),
        ("https://huggingface.co/org/name/tree/main/onnx", "hf:org/name", None),
        ("https://huggingface.co/org/name/tree/main/UD-Q4_K_XL", "hf:org/name", "UD-Q4_K_XL"),
        ("hf.co/org/name/tree/main/all/m-q8_0/", "hf:org/name", "all/m-q8_0"),
    ],
)
def test_what_people_copy_is_a_reference(pasted: str, reference: str, file: str | None) -> None:
    asked = parse_asked(pasted)
    assert (str(asked.reference), asked.file) == (reference, file)


@pytest.mark.parametrize(
    ("pasted", "words"),
    [
        ("https://huggingface.co/datasets/org/name", "is the address of a dataset; write hf:"),
        ("huggingface.co/spaces/org/name", "is the address of a space; write hf:"),
        ("https://example.com/org/name", "is not at huggingface.co; write hf:ORGANIZATION/NAME"),
        ("https://huggingface.co.example.com/org/name", "is not at huggingface.co"),
        ("https://huggingface.co@example.com/org/name", "is not at huggingface.co"),
        ("https://huggingface.co/org", "must look like hf:"),
        ("https://huggingface.co", "must look like hf:"),
        ("https://huggingface.co/org/..%2f..%2fapi", "must look like hf:"),
        ("https://huggingface.co/org/name/tree/..%2Fx", "must look like hf:"),
        ("hf.co/org/name:a b", "must look like hf:"),
        ("hugginghttps://face.co/org/name", "must look like hf:"),
        (
            "https://huggingface.co/org/name/blob/main/x+y.Q8_0.gguf",
            "names a GGUF file that Moorage cannot take",
        ),
        ("hf.co/org/name/resolve/main/x%20y.GGUF", "names a GGUF file that Moorage cannot take"),
        ("hf.co/org/name/raw/main/..%2Fx.gguf", "names a GGUF file that Moorage cannot take"),
        ("hf.co/org/name/tree/main/x y/Q8_0", "names a GGUF file that Moorage cannot take"),
    ],
)
def test_what_people_copy_and_is_no_model(pasted: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_asked(pasted)


def test_references() -> None:
    assert str(parse_reference("hf:Qwen/Qwen2.5-7B-Instruct")) == "hf:Qwen/Qwen2.5-7B-Instruct"
    pinned = parse_reference("hf:org/name@refs/pr/7")
    assert (pinned.repository, pinned.revision) == ("org/name", "refs/pr/7")
    assert json.dumps(str(pinned)) == '"hf:org/name@refs/pr/7"'

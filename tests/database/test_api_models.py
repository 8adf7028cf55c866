"""From a model's id to a container through the API, with a hub on this machine."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from api_support import Api, Home, assert_problem, new_home
from api_support import api_fixture as api_fixture

from moorage.catalog.defaults import default_catalogue
from moorage.catalog.repository import replace_nodes
from moorage.engines.base import GpuDevice, NodeCapacity
from moorage.kit.clock import system_clock
from moorage.models import service
from moorage.models.choosing import choose
from moorage.models.hub import look_up_model
from moorage.models.lookups import ModelLookups
from moorage.models.planning import PUBLIC_HUB
from moorage.models.reference import parse_reference
from moorage.models.schemas import ModelDeploy
from moorage.models.templates import gallery
from tests.models.hub_stand_in import STRANGERS_TOKEN, TOKEN, Hub, running_hub

QWEN = "Qwen/Qwen2.5-7B-Instruct"
GGUF = "Qwen/Qwen2.5-0.5B-Instruct-GGUF"


@dataclass
class Town:
    api: Api
    hub: Hub
    url: str
    home: Home

    async def resolve(self, model: str, asker: Home | None = None, **body: Any) -> dict[str, Any]:
        who = asker or self.home
        path = f"/projects/{who.project_id}/models/resolve"
        answer = await self.api.post(who.admin, path, {"model": model, **body})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def deploy(self, model: str, **body: Any) -> httpx.Response:
        path = f"/projects/{self.home.project_id}/models/deploy"
        return await self.api.post(self.home.admin, path, {"model": model, **body})

    async def money_and_containers(self) -> list[Any]:
        return await self.api.rows(
            "SELECT (SELECT count(*) FROM ledger_entries), (SELECT count(*) FROM containers), (SELECT count(*) FROM hours)"
        )


async def has_machines(api: Api) -> None:
    """All GPUs of the catalogue; what has the L4 takes nothing new."""
    models = [one.gpu_model for one in default_catalogue() if one.gpu_model is not None]
    gpus = tuple(GpuDevice(model, model, None) for model in models)
    rest = tuple(one for one in gpus if one.model != "NVIDIA L4")
    rack = NodeCapacity("rack", "operator", "amd64", 256_000, 2**40, rest)
    edge = NodeCapacity("edge", "operator", "amd64", 64_000, 2**37, (gpus[0],), schedulable=False)
    async with api.database.transaction() as session:
        await replace_nodes(session, [rack, edge])


@pytest.fixture(name="town")
async def town_fixture(api: Api) -> AsyncIterator[Town]:
    async with running_hub() as (hub, url):
        hub.add_examples()
        api.app.state.settings = api.settings.model_copy(update={"model_hub": url})
        await has_machines(api)
        yield Town(api, hub, url, await new_home(api))


async def test_what_a_model_needs_and_where_it_fits(town: Town) -> None:
    found = await town.resolve(f"hf:{QWEN}")
    assert (found["ok"], found["template"]["name"], found["instance_type"]) == (True, "vllm", "l40s-48gb")
    assert [one["name"] for one in found["other_templates"]] == ["sglang", "tgi"]
    model = found["model"]
    assert (model["parameters"], model["precision"], model["license"]) == (
        7_615_616_512,
        "bf16",
        "apache-2.0",
    )
    assert found["message"] == (
        "Each replica needs weights 15.2 GB + context 16,384 tokens × 16 requests 15.0 GB + server 1.3 GB = 31.6 GB. "
        "It fits on l40s-48gb."
    )
    prices = [one["price_per_hour_microusd"] for one in found["instance_types"]]
    assert prices == sorted(prices)
    by_name = {one["instance_type"]: one for one in found["instance_types"]}
    short = by_name["l4-24gb"]
    assert (short["fits"], short["longest_context_tokens"], short["free"]) == (False, 6144, 0)
    assert short["free_bytes"] < 0 < by_name["l40s-48gb"]["free_bytes"]
    assert (short["obstacle"], short["settings"]) == (None, None)
    without = by_name["cpu-large"]
    assert (without["reason"], without["obstacle"]) == ("vLLM needs a GPU.", "vLLM needs a GPU")
    assert found["settings"]["env"] == {"HF_ENDPOINT": town.url}
    assert by_name["l40s-48gb"]["settings"] == found["settings"]
    asked = len(town.hub.asked)
    longer = await town.resolve(f"hf:{QWEN}", context_tokens=32_768, requests_at_once=1)
    assert longer["memory"]["context_bytes"] == found["memory"]["context_bytes"] // 8
    assert len(town.hub.asked) == asked, "a hub that said it a moment ago is not asked again"


async def test_settings_follow_the_type(town: Town) -> None:
    found = await town.resolve(f"hf:{GGUF}", requests_at_once=1)
    settings = {one["instance_type"]: one["settings"] for one in found["instance_types"] if one["fits"]}
    assert settings["cpu-medium"]["image"] == "ghcr.io/ggml-org/llama.cpp:server-b11151"
    assert settings["l4-24gb"]["image"] == "ghcr.io/ggml-org/llama.cpp:server-cuda-b11151"
    assert settings["l4-24gb"]["start_command"].endswith("--n-gpu-layers 999")
    assert found["settings"] == settings[found["instance_type"]]


async def test_how_long_a_start_takes_is_told_from_starts_that_were_measured(town: Town) -> None:
    model, other = town.home, await new_home(town.api, "bob@example.com")

    async def started(who: Home, *steps: tuple[str, int, float]) -> None:
        for step, size, took_s in steps:
            await town.api.rows(
                "INSERT INTO measured_steps (organization_id, infrastructure, instance_type, image, step, bytes, took_s) VALUES "
                f"('{who.organization_id}', 'operator', 'l40s-48gb', '{image}', '{step}', {size}, {took_s}) RETURNING id"
            )

    async def told(asker: Home) -> dict[str, Any]:
        found = await town.resolve(f"hf:{QWEN}", asker)
        by_name = {one["instance_type"]: one["start"] for one in found["instance_types"]}
        assert by_name["l4-24gb"] is None, "where it does not fit it does not start"
        start: dict[str, Any] = by_name["l40s-48gb"]
        return start

    found = await town.resolve(f"hf:{QWEN}")
    image, size = found["settings"]["image"], found["model"]["download_bytes"]
    nothing = {"image_bytes_per_s": None, "download_s": None, "load_s": None, "again_s": None, "own": True}
    assert await told(model) == nothing
    await started(
        other, ("pull", 10**9, 10.0), ("download", 10**9, 5.0), ("load", size, 60.0), ("again", size, 55.0)
    )
    of_others = {"own": False, "image_bytes_per_s": 10**8, "download_s": round(size * 5 / 10**9)}
    assert await told(model) == nothing | of_others, "how fast the lines are, and nothing of what they run"
    await started(
        model, ("pull", 10**9, 5.0), ("download", size, 130.0), ("load", size, 50.4), ("again", size, 49.0)
    )
    assert await told(model) == {
        "image_bytes_per_s": 2 * 10**8, "download_s": 130, "load_s": 50, "again_s": 49, "own": True,
    }  # fmt: skip
    assert (await told(other))["load_s"] == 60


async def test_a_refusal_is_a_sentence(town: Town) -> None:
    for model, body, reason in (
        ("hf:nobody/nothing", {}, "model_not_found"),
        (f"hf:{QWEN}@v7", {}, "revision_not_found"),
        (f"hf:{QWEN}", {"template": "ollama"}, "template_does_not_serve"),
        (f"hf:{QWEN}", {"context_tokens": 99_999}, "context_too_long"),
    ):
        found = await town.resolve(model, **body)
        assert (found["ok"], found["reason"], found["instance_types"]) == (False, reason, [])
        assert found["message"].endswith(".")
        assert_problem(await town.deploy(model, **body), 422, reason)
    path = f"/projects/{town.home.project_id}/models/resolve"
    short = await town.api.post(town.home.admin, path, {"model": f"hf:{QWEN}", "context_tokens": 0})
    assert assert_problem(short, 422, "invalid_input")["errors"] == [
        {"field": "context_tokens", "message": "must be at least 256"}
    ]
    for model in ("Qwen", "hf:../..", "https://hub.example/a/b"):
        assert_problem(await town.api.post(town.home.admin, path, {"model": model}), 422, "invalid_input")


async def test_what_does_not_fit_is_refused_before_money_is_held(town: Town) -> None:
    before = await town.money_and_containers()
    l4 = {"mode": "general", "instance_type": "l4-24gb"}
    problem = assert_problem(await town.deploy(f"hf:{QWEN}", resources=l4), 422, "model_does_not_fit")
    assert problem["detail"] == (
        f"{QWEN} does not fit on l4-24gb: it is 9.1 GB short of the 31.6 GB that are needed. "
        "It fits on l40s-48gb, or a context of 6,144 tokens."
    )
    assert_problem(await town.deploy("hf:Qwen/Qwen3-8B", requests_at_once=1024), 422, "model_does_not_fit")
    assert await town.money_and_containers() == before
    fitting = await town.deploy(f"hf:{QWEN}", resources=l4, context_tokens=6144)
    assert fitting.status_code == 201, fitting.text
    assert await town.money_and_containers() != before


async def test_what_no_machine_has_is_refused_before_money_is_held(town: Town) -> None:
    async with town.api.database.transaction() as session:
        await replace_nodes(session, [NodeCapacity("plain", "operator", "amd64", 64_000, 2**37, ())])
    before = await town.money_and_containers()
    found = await town.resolve(f"hf:{QWEN}")
    assert (found["ok"], found["reason"], found["instance_type"]) == (True, "no_machine_has_it", None)
    named = {"mode": "general", "instance_type": "l40s-48gb"}
    for how in ({}, {"resources": named}):
        problem = assert_problem(await town.deploy(f"hf:{QWEN}", **how), 422, "no_machine_has_it")
        assert problem["detail"] == (
            "It fits on l40s-48gb, but no machine here has that GPU. "
            "Choose a GGUF model, which runs without a GPU, or ask the operator."
        )
    assert await town.money_and_containers() == before
    tiny = await town.deploy(f"hf:{GGUF}", requests_at_once=1)
    assert tiny.status_code == 201, tiny.text


async def test_a_strangers_machine_is_not_agreed_to_by_naming_its_type(town: Town) -> None:
    async with town.api.database.transaction() as session:
        lent = NodeCapacity("lent", "community", "amd64", 64_000, 2**37, ())
        await replace_nodes(session, [lent], "lent")
    await town.api.rows(
        "UPDATE instance_types SET infrastructure = 'community' WHERE name = 'cpu-medium' RETURNING name"
    )
    wish: dict[str, Any] = {
        "requests_at_once": 1,
        "resources": {"mode": "general", "instance_type": "cpu-medium"},
    }
    problem = assert_problem(await town.deploy(f"hf:{GGUF}", **wish), 422, "invalid_input")
    assert [one["field"] for one in problem["errors"]] == ["infrastructure"]
    unsaid = await town.deploy(f"hf:{GGUF}", infrastructure="community", **wish)
    assert_problem(unsaid, 422, "exposure_not_accepted")
    made = await town.deploy(f"hf:{GGUF}", infrastructure="community", accept_exposure=True, **wish)
    assert made.status_code == 201, made.text
    assert made.json()["infrastructure"] == "community"


async def test_the_address_of_a_file_is_the_model_and_the_file(town: Town) -> None:
    page = f"https://huggingface.co/{GGUF}"
    file = "qwen2.5-0.5b-instruct-q4_k_m.gguf"
    found = await town.resolve(f"{page}/blob/main/{file}?download=true", requests_at_once=1)
    assert (found["model"]["id"], found["model"]["precision"]) == (f"hf:{GGUF}", "Q4_K_M")
    made = await town.deploy(f"{page}/resolve/main/{file}", requests_at_once=1)
    assert made.status_code == 201, made.text
    assert f"--hf-file {file} " in made.json()["start_command"]
    assert made.json()["name"] == "Qwen2.5-0.5B-Instruct-GGUF"
    other = await town.deploy(f"{page}/blob/main/{file}", file="Q9", requests_at_once=1)
    assert_problem(other, 422, "file_not_found")


async def test_a_container_comes_of_it(town: Town) -> None:
    answer = await town.deploy(
        f"hf:{GGUF}", name="tiny", hub_token=TOKEN, env={"OWN": "value"}, requests_at_once=1
    )
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["name"], made["resources"]["instance_type"]) == ("tiny", "cpu-medium")
    assert (made["image"], made["port"]) == ("ghcr.io/ggml-org/llama.cpp:server-b11151", 8080)
    assert (made["api_path"], made["health_check"]["path"]) == ("/v1", "/health")
    assert made["start_command"] == (
        f"/app/llama-server --hf-repo {GGUF} --hf-file qwen2.5-0.5b-instruct-q4_k_m.gguf --host 0.0.0.0 --port 8080 "
        "--ctx-size 16384 --parallel 1"
    )
    assert set(made["env"]) == {"HF_TOKEN", "OWN"}
    assert made["plain_env"] == {"HF_ENDPOINT": town.url}, "it is no secret, and not masked in logs"
    assert TOKEN not in "".join(town.api.answers)
    assert TOKEN not in await town.api.dump()
    own = {"HF_ENDPOINT": "https://hub.example"}
    theirs = (await town.deploy(f"hf:{GGUF}", name="own", env=own, requests_at_once=1)).json()
    assert (set(theirs["env"]), theirs["plain_env"]) == ({"HF_ENDPOINT"}, {})
    same = {"HF_ENDPOINT": town.url}
    repeated = (await town.deploy(f"hf:{GGUF}", name="same", env=same, requests_at_once=1)).json()
    assert (len(repeated["env"]), repeated["plain_env"]) == (0, same)
    named = await town.deploy(f"hf:{GGUF}", requests_at_once=1)
    assert named.json()["name"] == "Qwen2.5-0.5B-Instruct-GGUF"


async def test_another_organizations_private_model(town: Town) -> None:
    """What somebody was shown with their token is shown to nobody else, not even a moment later: sixteen tries."""
    town.hub.repositories[QWEN].private = True
    for revision in ("", "@v1.0"):
        assert (await town.resolve(f"hf:{QWEN}{revision}", hub_token=TOKEN))["model"]["private"]
    before = await town.money_and_containers()
    stranger = await new_home(town.api, "eve@example.com")
    tries = 0
    for asker in (stranger, town.home):
        for token in ({}, {"hub_token": STRANGERS_TOKEN}):
            for revision in ("", "@v1.0"):
                found = await town.resolve(f"hf:{QWEN}{revision}", asker, **token)
                assert (found["ok"], found["reason"], found["model"]) == (False, "model_not_found", None)
                body = {"model": f"hf:{QWEN}{revision}", **token}
                path = f"/projects/{asker.project_id}/models/deploy"
                assert_problem(await town.api.post(asker.admin, path, body), 422, "model_not_found")
                tries += 2
    assert tries == 16
    assert TOKEN not in "".join(town.api.answers)
    for route in ("resolve", "deploy"):
        path = f"/projects/{town.home.project_id}/models/{route}"
        assert_problem(
            await town.api.post(stranger.admin, path, {"model": f"hf:{QWEN}", "hub_token": TOKEN}), 404
        )
    assert (await town.money_and_containers())[0][1:] == before[0][1:]


async def test_every_template_makes_a_container(town: Town) -> None:
    """Of its own example, on the cheapest type that it fits on; the API takes what comes of it."""
    listed = (await town.api.get(town.home.admin, "/templates")).json()["items"]
    assert [one["name"] for one in listed] == [one.name for one in gallery()]
    assert len(listed) >= 8
    assert all(one["price_per_hour_microusd"] for one in listed)
    async with town.api.database.transaction() as session:
        offers = await service.load_offers(session, 16.0)
    for template in gallery():
        reference = parse_reference(template.example)
        facts = await look_up_model(town.url, reference, None, clock=system_clock)
        wish = ModelDeploy(
            model=template.example, template=template.name, requests_at_once=2, name=f"of {template.name}"
        )
        choice = choose(facts, wish, offers, PUBLIC_HUB)
        assert choice.plan.template is template
        body = service.container_of(wish, choice, offers, PUBLIC_HUB).model_dump(mode="json")
        path = f"/projects/{town.home.project_id}/containers"
        answer = await town.api.post(town.home.admin, path, body)
        assert answer.status_code == 201, f"{template.name}: {answer.text}"
        assert "{" not in answer.json()["start_command"], template.name


async def test_without_a_hub(api: Api) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/models"
    found = (await api.post(home.admin, f"{path}/resolve", {"model": f"hf:{QWEN}"})).json()
    assert (found["ok"], found["reason"]) == (False, "no_model_hub")
    assert_problem(await api.post(home.admin, f"{path}/deploy", {"model": f"hf:{QWEN}"}), 409, "no_model_hub")


async def test_what_is_remembered_is_for_whoever_asked(town: Town) -> None:
    lookups = ModelLookups()
    reference = parse_reference(f"hf:{QWEN}")
    for asker, token in (("ada", None), ("eve", None), ("ada", TOKEN), ("ada", None), ("eve", None)):
        await lookups.facts(asker, town.url, reference, token, None, system_clock)
    assert len(town.hub.asked) == 3 * 2, (
        "two requests for each of three, and none for what was said a moment ago"
    )

"""From a model's id to an answer at a browser, in front of real Postgres, Docker and HAProxy. The hub stands outside, at a public
address; the server is a stand-in that takes the template's own command and reads the file that the hub serves."""

import asyncio
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiodocker
import httpx
import pytest
from playwright.sync_api import Browser, expect

from moorage.engines.docker.connection import DockerConnection
from tests.acceptance.conftest import run_stack
from tests.acceptance.stack import Stack, until
from tests.browser.conftest import REPOSITORY, Visitor, build_console, visit
from tests.models.hub_stand_in import GGUF_ENTRIES, TINY, gguf_file
from tests.models.outside_hub import OutsideHub, outside_hub

MODEL = "Qwen/Qwen2.5-0.5B-Instruct-GGUF"
IMAGE = "local/llama-stand-in:test"
DEPLOYED_MS = 120_000
DOCKERFILE = b"""FROM local/chat:latest
COPY llama-server hub.pem /app/
COPY text-embeddings-router /usr/local/bin/
ENV SSL_CERT_FILE=/app/hub.pem
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutsideHub]:
    with outside_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture(scope="module")
def stack_with_hub(docker_host: str, hub: OutsideHub) -> Iterator[Stack]:
    build_console()
    trusted = {"SSL_CERT_FILE": str(hub.certificate)}
    for stack in run_stack(docker_host, "26000-26999", MOORAGE_MODEL_HUB=hub.url, **trusted):
        with ThreadPoolExecutor(1) as beside:  # In this thread Playwright's event loop runs.
            beside.submit(asyncio.run, build_stand_in(docker_host, hub)).result()
        yield stack


@pytest.fixture
def visitor_of_models(browser: Browser, stack_with_hub: Stack) -> Iterator[Visitor]:
    gateway = f"http://127.0.0.1:{stack_with_hub.gateway_port}"
    yield from visit(browser, stack_with_hub.api_url, stack_with_hub.home / "operator-key", gateway)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_from_a_model_to_an_answer(visitor_of_models: Visitor) -> None:
    visitor = visitor_of_models
    page = visitor.page
    visitor.sign_in("models@example.com")
    page.get_by_label("Name").fill("harbour")
    page.get_by_role("button", name="Create project").click()
    page.get_by_role("link", name="Create a container").click()

    # A template that runs without a GPU, and a model of its kind; as small as it can be.
    page.get_by_role("radio", name="llama.cpp").check(force=True)
    page.get_by_label("Model", exact=True).fill(f"hf:{MODEL}")
    expect(page.get_by_text("Found: public")).to_be_visible()
    for slider in ("Context", "Requests at once"):
        page.get_by_role("slider", name=slider).press("Home")
    rows = page.get_by_role("radiogroup", name="Instance type")
    expect(rows.get_by_role("radio", name="cpu-medium")).to_be_checked()
    page.get_by_role("button", name="Next: Base settings").click()

    # Its image is not in reach of a test; everything else is the template's.
    page.get_by_label("Image", exact=True).fill(IMAGE)
    page.get_by_label("Name", exact=True).fill("tiny")
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name=re.compile("Deploy for")).click()
    page.wait_for_url(re.compile("/containers/ctr_"))
    expect(page.get_by_role("main").get_by_role("status").first).to_contain_text(
        "Running", timeout=DEPLOYED_MS
    )

    page.get_by_role("link", name="Dashboard").click()
    page.get_by_role("link", name="Playground").click()
    page.get_by_label("Message", exact=True).fill("Who are you?")
    page.keyboard.press("Enter")
    weights = hashlib.sha256(gguf_file(GGUF_ENTRIES)).hexdigest()[:12]
    answer = f"I am qwen2.5-7b-instruct, sha256 {weights}, with 2048 tokens for 1."
    expect(page.get_by_role("log")).to_contain_text(answer, timeout=30_000)

    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_label("Type tiny").fill("tiny")
    page.get_by_role("button", name="Delete container").click()
    expect(page.get_by_text("Nothing runs here yet.")).to_be_visible(timeout=DEPLOYED_MS)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_embeddings_without_a_gpu_and_a_cache_that_breaks(stack_with_hub: Stack, docker_root: Path) -> None:
    """Another template, by the command line. What it fetched and compiled is read back by the next start; what is broken ends
    that start in words, and once it is deleted the next one is whole again."""
    stack = stack_with_hub
    stack.moor("login")
    found = stack.json("deploy", f"hf:{TINY}", "--template", "embeddings", "--dry-run")
    settings = found["settings"]
    assert settings["image"].endswith("text-embeddings-inference:cpu-1.8")
    of_settings = {
        "--command": settings["start_command"],
        "--port": str(settings["port"]),
        "--health-path": settings["health_path"],
        "--api-path": settings["api_path"],
        "--health-timeout": str(settings["health_timeout_s"]),
        "--cache": str(found["cache"]["size_gib"]),
        "--instance-type": found["instance_type"],
    }
    variables = [part for name, value in settings["env"].items() for part in ("-e", f"{name}={value}")]
    # Its image is not in reach of a test; everything else is the template's.
    own_image = ("--image", IMAGE, "--provider", "local", "--name", "embed")
    options = [part for option in of_settings.items() for part in option]
    stack.moor("deploy", *own_image, *options, *variables)
    key = stack.moor("keys", "create").stdout.strip()
    url = stack.json("describe", "embed")["endpoint_url"]

    def said() -> tuple[int, str, str]:
        asked = {"json": {"input": "Ahoy"}, "headers": {"Authorization": f"Bearer {key}"}, "timeout": 10}
        answers = lambda: (got := httpx.post(f"{url}/v1/embeddings", **asked)).is_success and got.json()  # noqa: E731
        answer = until(answers, "embeddings are answered")
        return answer["fetched_bytes"], answer["kernel"], answer["weights_sha256"]

    fetched, kernel, weights = said()
    assert (fetched > 1_000_000, kernel) == (True, "compiled")
    stack.moor("restart", "embed")
    until(lambda: said() == (0, "read back", weights), "the restarted one answers, from its cache")

    for broken in ("huggingface/hub/models--acme--bge-tiny/blobs/*", "triton/*/gelu.cubin"):
        stack.moor("stop", "embed")
        files = list(docker_root.glob(f"volumes/moor-cache-*/_data/{broken}"))
        assert files, "what it kept is there while it is stopped"
        for one in files:
            one.write_bytes(b"\xff" * one.stat().st_size)
        assert stack.moor("start", "embed", check=False).returncode != 0
        failed = stack.json("describe", "embed")
        assert (failed["state"], failed["reason"]) == ("FAILED", "exited")
        assert (
            "The same settings started from its cache before, so the cache may be damaged."
            in failed["message"]
        )
        (cache,) = stack.json("caches", "list")
        assert not cache["in_use"], "so it can be deleted"
        stack.moor("caches", "delete", cache["id"])
        stack.moor("start", "embed")
        assert said() == (fetched, "compiled", weights)
    stack.moor("delete", "embed", "--yes")
    until(lambda: stack.json("caches", "list") == [], "its cache went with it")


@pytest.fixture
def docker_root(docker_host: str) -> Path:
    async def asked() -> str:
        async with aiodocker.Docker(docker_host) as docker:
            return str((await docker.system.info())["DockerRootDir"])

    with ThreadPoolExecutor(1) as beside:
        return Path(beside.submit(asyncio.run, asked()).result())


async def build_stand_in(docker_host: str, hub: OutsideHub) -> None:
    """On the example's image, which has Python: the servers where the templates' commands expect them, and whom to trust."""
    files = {
        "Dockerfile": (DOCKERFILE, 0o644),
        "llama-server": ((REPOSITORY / "tests/models/llama-server").read_bytes(), 0o755),
        "text-embeddings-router": (
            (REPOSITORY / "tests/models/text-embeddings-router").read_bytes(),
            0o755,
        ),
        "hub.pem": (hub.certificate.read_bytes(), 0o644),
    }
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    context.seek(0)
    connection = DockerConnection(docker_host)
    await connection.docker.images.build(fileobj=context, encoding="identity", tag=IMAGE)
    await connection.close()

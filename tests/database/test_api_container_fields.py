"""Every kind of bad field when a container is created."""

import json
from typing import Any

import pytest
from api_support import SMALL, Api, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture

CANARY = "canary-5up3r-s3cret"


def general(**changes: Any) -> dict[str, Any]:
    return {"mode": "general", "instance_type": SMALL, **changes}


def autoscaling(**changes: Any) -> dict[str, Any]:
    return {
        "mode": "autoscaling",
        "instance_type": SMALL,
        "min_replicas": 1,
        "max_replicas": 2,
        **changes,
    }


HUGE = 10**30
BAD: list[tuple[dict[str, Any], str]] = [
    *(({"name": bad}, "name") for bad in ("", " x", "-x", "x" * 64, "a/b", "a\nb", "ü", "a\x00", None, 5, [], HUGE)),
    *(({"category": bad}, "category") for bad in ("x" * 65, "nul\x00", "\ud800", 5, [])),
    *(
        ({"image": bad}, "image")
        for bad in (
            "", "UPPER", "a b", "a:b:c", "a@sha256:12", "-x/y", "acme/", "/acme", "acme//chat", "acme/chat:",
            "a" * 501, "acme/chat\x00", "ghcr.io/acme/chat", "acme/chat;id", "$(id)", "../etc", None, 5, {}, "\ud800",
        )
    ),
    *(
        ({"registry": {"provider": "other"}, "image": bad}, "image")
        for bad in (
            "acme/chat", "127.0.0.1:5000/a", "localhost/a", "localhost:5000/a", "10.0.0.1/a", "169.254.169.254/a",
            "2130706433.0/a", "0x7f.1/a", "registry.internal/a", "host:5000/a", "a..b/c", f"{'a' * 64}.com/c",
            "example.com:0/a", "example.com:65536/a", "example.com:/a", "[::1]/a", "-a.com/a", "a-.com/a", "user@a.com/a",
        )
    ),
    ({"registry": {"provider": "nowhere"}}, "registry.provider"),
    ({"registry": {"username": "ada"}}, "registry"),
    ({"registry": {"password": CANARY}}, "registry"),
    ({"registry": {"username": "", "password": "x"}}, "registry.username"),
    ({"registry": {"username": "a\x00", "password": "x"}}, "registry.username"),
    ({"registry": {"username": "a", "password": "x\x00"}}, "registry.password"),
    ({"registry": {"username": "a", "password": "\ud800"}}, "registry.password"),
    ({"registry": {"username": "\udfff", "password": "x"}}, "registry.username"),
    ({"resources": general(instance_type="\ud800")}, "resources.general.instance_type"),
    ({"registry": {"username": "a", "password": "x" * 16385}}, "registry.password"),
    ({"registry": {"provider": "local", "username": "a", "password": "b"}, "image": "local/chat"}, "registry"),
    ({"registry": {"provider": "local"}, "image": "chat"}, "image"),
    ({"registry": {"provider": "local"}, "image": "docker.io/local/chat"}, "image"),
    ({"registry": []}, "registry"),
    ({"registry": None}, "registry"),
    ({"resources": None}, "resources"),
    ({"resources": {}}, "resources"),
    ({"resources": {"mode": "free"}}, "resources"),
    ({"resources": {"mode": "\ud800"}}, "resources"),
    ({"resources": general(instance_type="none")}, "resources.instance_type"),
    ({"resources": general(instance_type="nul\x00")}, "resources.general.instance_type"),
    ({"resources": general(min_replicas=2)}, "resources.general.min_replicas"),
    ({"resources": autoscaling(min_replicas=3)}, "resources.min_replicas"),
    *(
        ({"resources": autoscaling(**{name: bad})}, f"resources.autoscaling.{name}")
        for name in ("min_replicas", "max_replicas", "target_concurrency", "scale_down_delay_s")
        for bad in (-1, HUGE, 1.5, "many", None)
    ),
    ({"resources": autoscaling(min_replicas=0)}, "resources.autoscaling.min_replicas"),
    *(({"start_command": bad}, "start_command") for bad in ("", "  ", "'open", "a\x00", "x" * 8193, 5, ["a"])),
    *(({"port": bad}, "port") for bad in (0, -1, 65536, HUGE, 1.5, "http", [], float("nan"), float("inf"))),
    *(
        ({"health_check": {"path": bad}}, "health_check.path")
        for bad in ("", "health", "/a b", "/a\r\nX: y", "/\x00", "/" + "a" * 200, "http://x/", 5)
    ),
    *(
        ({"limits": {name: bad}}, f"limits.{name}")
        for name in ("max_body_bytes", "request_timeout_s", "idle_timeout_s", "max_concurrency")
        for bad in (0, -1, HUGE, None, "much")
    ),
    ({"limits": {"retry_unanswered": "perhaps"}}, "limits.retry_unanswered"),
    *(({"health_check": {"timeout_s": bad}}, "health_check.timeout_s") for bad in (9, 3601, HUGE, None, "long")),
    *(
        ({"env": bad}, "env")
        for bad in (
            {"": "x"}, {"1A": "x"}, {"A B": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A" * 129: "x"}, {"A": "x\x00"},
            {"A": "x" * 32_769}, {f"A{n}": "x" for n in range(201)}, {f"A{n}": "x" * 32_000 for n in range(9)},
            [], "A=B", None,
        )
    ),
    ({"env": {"A": 5}}, "env.A"),
    ({"env": {"A": None}}, "env.A"),
    ({"env": {"A": "\ud800"}}, "env"),
    ({"infrastructure": "moon"}, "infrastructure"),
    ({"infrastructure": "community"}, "infrastructure"),
    ({"unknown": 1}, "unknown"),
    ({"__class__": 1}, "__class__"),
]  # fmt: skip


@pytest.mark.long
async def test_bad_field(api: Api) -> None:
    """Each is named in the answer, and nothing is written."""
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    before = await api.dump()
    wrong = []
    for changes, field in BAD:
        # Escaped by hand: a lone surrogate is valid JSON in ASCII, but httpx would refuse to send it.
        content = json.dumps(container_body(**changes))
        answer = await api.ask(
            home.admin,
            "POST",
            f"/api/v1{path}",
            content=content,
            headers={"Content-Type": "application/json"},
        )
        if answer.status_code != 422 or field not in [
            one["field"] for one in answer.json().get("errors", [])
        ]:
            wrong.append((repr(changes)[:80], field, answer.status_code, answer.text[:200]))
        else:
            assert_problem(answer, 422)
            assert CANARY not in answer.text
    assert wrong == [], "\n".join(map(str, wrong))
    assert await api.dump() == before
    print(f"{len(BAD)} bad bodies, each refused with its field")


async def test_several_bad_fields(api: Api) -> None:
    home = await new_home(api)
    body = container_body(
        name="-", image="A", env={"1": ""}, start_command="'", resources=general(instance_type="x")
    )
    answer = await api.post(home.admin, f"/projects/{home.project_id}/containers", body)
    fields = {error["field"] for error in assert_problem(answer, 422, "invalid_input")["errors"]}
    assert fields == {"name", "image", "env", "start_command", "resources.instance_type"}


async def test_missing_fields(api: Api) -> None:
    home = await new_home(api)
    answer = await api.post(home.admin, f"/projects/{home.project_id}/containers", {})
    fields = {error["field"] for error in assert_problem(answer, 422)["errors"]}
    assert fields == {"name", "image", "resources"}

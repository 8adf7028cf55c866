"""`moor … --accept-exposure`: what is said to the API, and where it is not said."""

from cli_server import FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]


def sent(fake: FakeMoorage, method: str, ending: str) -> dict[str, object]:
    bodies = [one[3] for one in fake.requests if one[0] == method and one[1].endswith(ending)]
    return dict(bodies[-1] or {})


def test_deploy_says_it_only_when_told_to(moor: Moor, fake: FakeMoorage) -> None:
    image = ("deploy", "--image", "local/chat", "--no-wait")
    assert moor(*image, "--infrastructure", "any", "--accept-exposure").exit_code == 0
    body = sent(fake, "POST", "/containers")
    assert (body["infrastructure"], body["accept_exposure"]) == ("any", True)
    assert moor(*image, "--infrastructure", "any").exit_code == 0
    assert "accept_exposure" not in sent(fake, "POST", "/containers")


def test_a_model_needs_it_to_be_deployed_and_not_to_be_weighed(moor: Moor, fake: FakeMoorage) -> None:
    model = ("deploy", "hf:Qwen/Qwen3-8B", "--infrastructure", "community", "--accept-exposure", "--no-wait")
    assert moor(*model).exit_code == 0
    assert sent(fake, "POST", "/models/deploy")["accept_exposure"] is True
    assert "accept_exposure" not in sent(fake, "POST", "/models/resolve")


def test_an_edit_says_it(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(state="STOPPED")
    assert moor("edit", "chat", "--set", "infrastructure=any", "--set", "accept_exposure=true").exit_code == 0
    body = next(
        one[3]
        for one in reversed(fake.requests)
        if one[0] in ("PATCH", "PUT") and "accept_exposure" in (one[3] or {})
    )
    assert body == {"infrastructure": "any", "accept_exposure": True}
    assert moor("edit", "chat", "--set", "accept_exposure=yes").exit_code != 0

"""The story of the README: sign up, deploy, chat, stop, delete."""

import httpx
import openai
import pytest

from tests.acceptance.stack import Person, Stack, parse_sse, until


def test_from_sign_up_to_a_chat_completion(stack: Stack) -> None:
    person = stack.sign_up("first@example.com")
    chat = person.deploy("chat")
    assert chat.read()["endpoint_url"].endswith(f"/c/{chat.id}")
    ready = chat.until_state("RUNNING")
    assert ready["replicas"] == {"desired": 1, "ready": 1}
    key = person.key()

    plain = chat.ask(key)
    assert plain.status_code == 200
    assert "Ahoy" in plain.json()["choices"][0]["message"]["content"]

    streamed = chat.ask(key, stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    chunks = parse_sse(streamed.text)
    assert len(chunks) > 3
    assert "Ahoy" in "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)

    chat.do("stop")
    stopped = chat.until_state("STOPPED")
    assert stopped["reason"] == "stopped_by_user"
    chat.do("start")
    chat.until_state("RUNNING")
    assert chat.ask(key).status_code == 200
    chat.delete()


def test_the_official_openai_client(person: Person) -> None:
    chat = person.deploy("openai")
    chat.until_state("RUNNING")
    client = openai.OpenAI(base_url=f"{chat.url}/api/v1", api_key=person.key(), max_retries=0)
    messages = [{"role": "user", "content": "Ahoy"}]
    plain = client.chat.completions.create(model="chat", messages=messages)  # type: ignore[call-overload]
    assert "Ahoy" in plain.choices[0].message.content
    stream = client.chat.completions.create(model="chat", messages=messages, stream=True)  # type: ignore[call-overload]
    words = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(words) == plain.choices[0].message.content
    chat.delete()


def test_a_stock_server_at_the_promised_path(person: Person) -> None:
    """One that has its API at /v1 and nothing at /api/v1, as vLLM: the official client at the promised address."""
    env = {"CHAT_V1_ONLY": "1"}
    stock = person.deploy("stock", env=env, api_path="/v1")
    plain = person.deploy("without-the-setting", env=env)
    stock.until_state("RUNNING")
    plain.until_state("RUNNING")
    key = person.key()
    stock.until_answered(key)
    messages = [{"role": "user", "content": "Ahoy"}]
    with openai.OpenAI(base_url=f"{stock.url}/api/v1", api_key=key, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["harbour-pilot"]
        said = client.chat.completions.create(model="chat", messages=messages)  # type: ignore[call-overload]
        stream = client.chat.completions.create(model="chat", messages=messages, stream=True)  # type: ignore[call-overload]
        words = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(words) == said.choices[0].message.content
    assert stock.ask(key, "/v1/chat/completions").status_code == 200, "its own path stays"
    assert plain.ask(key, "/api/v1/chat/completions").status_code == 404, "nothing of it is changed"
    assert plain.ask(key, "/v1/chat/completions").status_code == 200
    stock.delete()
    plain.delete()


def test_what_the_container_sees_of_a_request(person: Person) -> None:
    chat = person.deploy("echo")
    chat.until_state("RUNNING")
    key = person.key()
    headers = {
        "Authorization": f"Bearer {key}",
        "Cookie": "a=b",
        "X-Request-ID": "forged",
        "X-Forwarded-For": "6.6.6.6",
    }
    answer = httpx.post(f"{chat.url}/echo?x=1", headers=headers, content=b"body", timeout=10)
    seen = {name.lower(): value for name, value in answer.json()["headers"]}
    assert key not in answer.text
    assert "authorization" not in seen
    assert "cookie" not in seen
    assert seen["x-request-id"] == answer.headers["x-request-id"] != "forged"
    assert seen["x-forwarded-for"] == "127.0.0.1"
    chat.delete()


def test_logs_are_there_and_stay_after_a_crash(person: Person) -> None:
    chat = person.deploy(
        "crash", env={"CHAT_LOG_LINES": "50", "CHAT_CRASH": "at-start", "CHAT_EXIT_CODE": "3"}
    )
    failed = chat.until_state("FAILED")
    assert failed["reason"] == "exited"
    assert "exit code 3" in failed["message"]

    def all_lines() -> bool:
        items = person.api.get(f"/containers/{chat.id}/logs", params={"limit": 200}).json()["items"]
        return len([item for item in items if any(character.isdigit() for character in item["text"])]) >= 50

    until(all_lines, "the 50 lines are stored", timeout_s=20)
    chat.delete()


@pytest.mark.long
def test_a_wrong_port_is_named(person: Person) -> None:
    chat = person.deploy(
        "loopback", env={"CHAT_BIND": "127.0.0.1"}, health_check={"path": "/health", "timeout_s": 10}
    )
    failed = chat.until_state("FAILED", timeout_s=40)
    assert failed["reason"] == "listens_on_loopback_only"
    assert failed["message"].startswith("Listens on 127.0.0.1:8000; expected 0.0.0.0:8000.")
    chat.delete()


@pytest.mark.long
def test_three_replicas_share_the_work_and_one_that_dies_is_replaced(person: Person, stack: Stack) -> None:
    resources = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 3, "max_replicas": 3}
    chat = person.deploy("three", resources=resources)
    until(lambda: chat.read()["replicas"]["ready"] == 3, "three replicas are ready")
    key = person.key()
    headers = {"Authorization": f"Bearer {key}"}
    hosts = {httpx.get(f"{chat.url}/whoami", headers=headers).json()["hostname"] for _ in range(30)}
    assert len(hosts) == 3
    chat.delete()

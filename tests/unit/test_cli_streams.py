"""`moor logs` and `moor chat`, against a server that plays the documented API."""

import json
from typing import Any

import pytest
from cli_server import FakeMoorage, Moor, log_line

pytest_plugins = ["cli_fixtures"]


def event(event_id: int, line: dict[str, Any]) -> str:
    return f"id: {event_id}\ndata: {json.dumps(line, ensure_ascii=False)}\n\n"


def chunk(text: str) -> str:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n"


def texts(stdout: str) -> list[str]:
    return [line.split(" ", 2)[2] for line in stdout.splitlines()]


def streamed(*parts: str) -> tuple[int, str, bytes]:
    return 200, "text/event-stream", ("".join(map(chunk, parts)) + "data: [DONE]\n\n").encode()


def test_logs_are_oldest_first_across_pages(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.page_size = 4
    fake.log_lines = [log_line(number, f"line {number}") for number in range(10)]
    assert texts(moor("logs", "chat").stdout) == [f"line {number}" for number in range(10)]
    assert texts(moor("logs", "chat", "-n", "3").stdout) == ["line 7", "line 8", "line 9"]
    first = moor("logs", "chat").stdout.splitlines()[0]
    assert first == "2026-01-31T12:00:00.500Z abcdef line 0"


def test_what_moorage_says_is_told_from_what_a_container_prints(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.log_lines = [
        log_line(0, "moorage:abcdef 9 lines dropped"),
        log_line(1, "9 lines dropped", "moorage"),
    ]
    assert moor("logs", "chat").stdout.splitlines() == [
        "2026-01-31T12:00:00.500Z abcdef moorage:abcdef 9 lines dropped",
        "2026-01-31T12:00:01.500Z moorage:abcdef 9 lines dropped",
    ]


def test_log_filters_are_the_apis(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    moor(
        "logs",
        "chat",
        "--since",
        "10m",
        "--until",
        "2026-01-31T12:00:00Z",
        "--grep",
        "x y",
        "--stream",
        "stderr",
    )
    query = fake.queries("/containers/ctr_0/logs")[0]
    assert (query["text"], query["stream"]) == ("x y", "stderr")
    assert query["to"] == "2026-01-31T12:00:00+00:00"
    assert query["from"].endswith("+00:00")
    assert moor("logs", "chat", "-f", "--until", "1m").exit_code == 2
    moor("logs", "chat", "--replica", "abcdef")
    assert fake.queries("/containers/ctr_0/logs")[-1]["instance"] == "rep_abcdef"
    assert moor("logs", "chat", "--replica", "xyz").exit_code == 2


def test_logs_of_the_whole_project_name_the_container(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    deleted = {**log_line(1, "from what is gone"), "container_id": "ctr_gone"}
    fake.log_lines = [log_line(0, "hello"), deleted]
    assert [line.split(" ", 2)[2] for line in moor("logs").stdout.splitlines()] == [
        "chat hello",
        "ctr_gone from what is gone",
    ]
    assert moor("logs", "--replica", "abcdef").exit_code == 2


def test_logs_as_json_are_one_object_per_line(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.log_lines = [log_line(1, "one\x1b[2J"), log_line(2, "two")]
    assert [json.loads(line)["text"] for line in moor("logs", "chat", "--json").stdout.splitlines()] == [
        "one\x1b[2J",
        "two",
    ]


def test_following_goes_on_where_a_connection_ended(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.event_batches = [
        [event(1, log_line(1, "one")), event(2, log_line(2, "two\u2028still two"))],
        [],
        [event(3, log_line(3, "three")), 'id: 4\ndata: {"cut'],
    ]
    result = moor("logs", "chat", "-f", "-n", "5", "--json")
    assert [json.loads(line)["text"] for line in result.stdout.split("\n") if line] == [
        "one",
        "two\u2028still two",
        "three",
    ]
    assert result.exit_code == 7, "it ends when the container is gone"
    asked = [headers for headers in fake.headers if headers.get("accept") == "text/event-stream"]
    assert [headers.get("last-event-id") for headers in asked] == [None, "2", "2", "3"]
    assert fake.queries("/containers/ctr_0/logs/stream")[0]["tail"] == "5"


def test_following_since_a_time_repeats_nothing(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.log_lines = [log_line(2, "two"), log_line(3, "three")]
    fake.event_batches = [[event(number, log_line(number, f"line {number}")) for number in (1, 2, 3, 4)]]
    result = moor("logs", "chat", "-f", "--since", "2026-01-31T12:00:02Z")
    assert texts(result.stdout) == ["two", "three", "line 4"]


def test_chat_streams_and_measures(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.chat_answers = [streamed("Hel", "lo")]
    result = moor("chat", "chat", "Hi", "--key", "moor_k", "--system", "Be brief.")
    assert (result.exit_code, result.stdout) == (0, "Hello\n")
    assert "first token after" in result.stderr
    assert "request req_chat" in result.stderr
    method, path, _, body = fake.requests[-1]
    assert (method, path) == ("POST", "/c/ctr_0/api/v1/chat/completions")
    assert body["stream"] is True
    assert [one["role"] for one in body["messages"]] == ["system", "user"]
    assert fake.headers[-1]["authorization"] == "Bearer moor_k"


def test_chat_without_a_key_makes_one_for_a_while(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    refused = (401, "application/json", b'{"error": {"code": "authentication_failed", "request_id": "r"}}')
    fake.chat_answers = [refused, streamed("Hello")]
    result = moor("chat", "chat", "Hi")
    assert (result.exit_code, result.stdout) == (0, "Hello\n"), result.stderr
    assert "'moor chat'" in result.stderr
    body = fake.asked("POST", "/projects/prj_one/api-keys")[0]
    assert (body["name"], body["scope"]) == ("moor chat", "inference")
    assert fake.keys == [], "it is revoked at the end"


def test_chat_finds_the_other_path(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    answer = json.dumps({"choices": [{"message": {"content": "Hello"}}]}).encode()
    fake.chat_answers = [
        (404, "application/json", b'{"detail": "Not Found"}'),
        (200, "application/json", answer),
    ]
    result = moor("chat", "chat", "Hi", "--key", "k", "--no-stream", "--json")
    text, done = (json.loads(line) for line in result.stdout.splitlines())
    assert text == {"event": "text", "text": "Hello"}
    assert done["request_id"] == "req_chat"
    assert fake.requests[-1][1] == "/c/ctr_0/v1/chat/completions"


def test_chat_tells_how_to_get_the_promised_path(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    answer = json.dumps({"choices": [{"message": {"content": "Hello"}}]}).encode()
    fake.chat_answers = [(404, "application/json", b"{}"), (200, "application/json", answer)]
    assert (
        "moor edit chat --set api_path=/v1 --apply"
        in moor("chat", "chat", "Hi", "--key", "k", "--no-stream").stderr
    )


def test_a_model_that_is_not_there_says_nothing_about_paths(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    no_model = json.dumps({"error": {"message": "The model does not exist."}}).encode()
    no_path = json.dumps({"error": {"message": "File not found."}}).encode()
    fake.chat_answers = [
        (404, "application/json", no_model),
        (404, "application/json", no_path),
        streamed("Hello"),
    ]
    result = moor("chat", "chat", "--key", "k", stdin="first\nsecond\n/exit\n")
    assert "The model does not exist." in result.stderr
    assert "File not found" not in result.stderr
    assert "api_path" not in result.stderr
    assert fake.requests[-1][1] == "/c/ctr_0/api/v1/chat/completions"


def test_where_one_path_explains_itself_that_word_is_shown(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    no_model = json.dumps({"error": {"message": "The model does not exist."}}).encode()
    fake.chat_answers = [
        (404, "application/json", b'{"detail": "Not Found"}'),
        (404, "application/json", no_model),
    ]
    assert "The model does not exist." in moor("chat", "chat", "Hi", "--key", "k").stderr


def test_a_conversation_remembers(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.chat_answers = [streamed("One"), streamed("Two")]
    result = moor("chat", "chat", "--key", "k", stdin="first\n\nsecond\n/exit\n")
    assert (result.exit_code, result.stdout) == (0, "One\nTwo\n")
    assert [one["content"] for one in fake.requests[-1][3]["messages"]] == ["first", "One", "second"]


@pytest.mark.parametrize(
    ("answer", "exit_code", "message"),
    [
        ((401, "application/json", b'{"error": {"message": "Wrong key."}}'), 5, "Wrong key."),
        (
            (503, "application/json", b'{"error": {"message": "Not running.", "request_id": "r"}}'),
            1,
            "Not running.",
        ),
        ((500, "text/html", b"<h1>oops"), 1, "The container answered 500."),
        ((200, "text/html", b"<h1>hello"), 1, "not a chat completion"),
        ((200, "text/event-stream", chunk("cut").encode()), 1, "ended before the answer was complete"),
        ((200, "text/event-stream", b'data: {"error": {"message": "No GPU."}}\n\n'), 1, "No GPU."),
    ],
)
def test_chats_that_fail(
    moor: Moor, fake: FakeMoorage, answer: tuple[int, str, bytes], exit_code: int, message: str
) -> None:
    fake.add_container()
    fake.chat_answers = [answer]
    result = moor("chat", "chat", "Hi", "--key", "k")
    assert result.exit_code == exit_code
    assert message in result.stderr


def test_chat_with_what_is_not_running(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(state="STOPPED", reason="stopped_by_user")
    result = moor("chat", "chat", "Hi")
    assert result.exit_code == 1
    assert "chat is STOPPED (stopped_by_user)" in result.stderr
    assert fake.keys == []

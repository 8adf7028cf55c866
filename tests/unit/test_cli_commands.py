"""The commands as people and scripts use them, against a server that plays the documented API."""

import json
import signal
import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cli_server import (
    DIAGNOSIS,
    MANAGE_KEY,
    OPERATOR_KEY,
    SESSION_TOKEN,
    FakeMoorage,
    Moor,
    log_line,
    project,
    serving,
)

pytest_plugins = ["cli_fixtures"]


# Signing in


def test_login_by_code_stores_the_session_privately(moor: Moor, fake: FakeMoorage, config: Path) -> None:
    config.unlink()
    result = moor("login", "--url", fake.url, "--email", "ada@example.com", stdin="123456\n")
    assert result.exit_code == 0, result.stderr
    assert "Signed in to" in result.stdout
    assert "ada@example.com" in result.stdout
    assert f'token = "{SESSION_TOKEN}"' in config.read_text()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert moor("whoami").exit_code == 0


def test_a_code_on_the_command_line_sends_no_other(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("login", "--email", "a@b", "--code", "123456").exit_code == 0
    assert fake.asked("POST", "/auth/email/start") == []


def test_a_wrong_code_is_not_signed_in(moor: Moor, fake: FakeMoorage, config: Path) -> None:
    before = config.read_text()
    result = moor("login", "--email", "a@b", "--code", "000000")
    assert result.exit_code == 5
    assert "The code is wrong or expired." in result.stderr
    assert config.read_text() == before


def test_login_where_nobody_can_type_the_code(moor: Moor) -> None:
    result = moor("login", "--email", "a@b", stdin="")
    assert result.exit_code == 2
    assert "moor login --email a@b --code CODE" in result.stderr


def test_login_by_link_takes_the_address_from_it(moor: Moor, fake: FakeMoorage, config: Path) -> None:
    config.unlink()
    assert moor("login", "--link", f"{fake.url}/sign-in?token=moor_link_test").exit_code == 0
    assert f'url = "{fake.url}"' in config.read_text()
    assert moor("login", "--link", f"{fake.url}/sign-in").exit_code == 2


def test_login_by_browser(moor: Moor, fake: FakeMoorage, config: Path) -> None:
    """Shows a code, waits until somebody approves it, and remembers their session."""
    approved = {"status": "approved", "signed_in": {"session_token": SESSION_TOKEN}}
    fake.device_answers = [(202, {"status": "pending"}), (202, {"status": "pending"}), (200, approved)]
    result = moor("login", "--browser")
    assert result.exit_code == 0, result.stderr
    assert f"{fake.url}/device?code=BCDF-GHJK" in result.stderr
    assert len(fake.asked("POST", "/auth/device/token")) == 3
    assert SESSION_TOKEN in config.read_text()


def test_login_by_browser_refused_or_late(moor: Moor, fake: FakeMoorage) -> None:
    refused = {"status": 401, "code": "authentication_failed", "detail": "The sign-in was refused."}
    fake.device_answers = [(401, refused)]
    result = moor("login", "--browser")
    assert (result.exit_code, "refused" in result.stderr) == (5, True)
    fake.device_expires_in_s = 0
    result = moor("login", "--browser")
    assert (result.exit_code, "in time" in result.stderr) == (5, True)


def test_login_uses_the_operators_key_of_this_machine(
    moor: Moor, fake: FakeMoorage, tmp_path: Path, config: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "operator-key").write_text(OPERATOR_KEY + "\n")
    (home / "addresses").write_text(f"{fake.url}\nhttps://cloud.example.com\n")
    config.unlink()  # Nobody said where: it is where the installation says.
    result = moor("login")
    assert result.exit_code == 0
    assert str(home / "operator-key") in result.stderr
    assert "(operator)" in result.stdout
    assert OPERATOR_KEY in config.read_text()


@pytest.mark.parametrize("addresses", ["http://127.0.0.1:9\n", None])
def test_the_operators_key_goes_to_its_own_installation_alone(
    moor: Moor, fake: FakeMoorage, tmp_path: Path, addresses: str | None
) -> None:
    """Something else answers at the address that was named, on the same machine."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "operator-key").write_text(OPERATOR_KEY + "\n")
    if addresses is not None:
        (home / "addresses").write_text(addresses)
    fake.device_expires_in_s = 0
    assert moor("login").exit_code == 5, "by browser, and nobody approves"
    sent = [headers.get("authorization", "") for headers in fake.headers]
    assert sent
    assert not any(OPERATOR_KEY in one for one in sent)


def test_a_refused_key_is_explained_and_not_stored(moor: Moor, config: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("moor_inference\n")
    result = moor("login", "--key-file", str(tmp_path / "key"))
    assert result.exit_code == 5
    assert "scope manage" in result.stderr
    assert "moor_inference" not in config.read_text()


def test_two_ways_at_once_are_refused(moor: Moor) -> None:
    assert moor("login", "--key", "a", "--email", "b").exit_code == 2


def test_logout_ends_the_session_and_forgets_it(moor: Moor, fake: FakeMoorage, config: Path) -> None:
    assert moor("logout").exit_code == 0
    assert len(fake.asked("POST", "/auth/logout")) == 1
    assert SESSION_TOKEN not in config.read_text()
    result = moor("list")
    assert result.exit_code == 5
    assert "moor login" in result.stderr


def test_a_stored_token_goes_to_no_other_address(moor: Moor, fake: FakeMoorage) -> None:
    with serving(FakeMoorage()) as other:
        assert moor("whoami", "--url", other.url).exit_code == 5
        assert other.requests == []
    assert moor("whoami").exit_code == 0


def test_the_environment_wins_over_the_file(moor: Moor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_TOKEN", OPERATOR_KEY)
    result = moor("whoami", "--json")
    assert json.loads(result.stdout)["user"]["is_operator"] is True


# Status


def test_status_of_a_ready_installation(moor: Moor, monkeypatch: pytest.MonkeyPatch) -> None:
    result = moor("status")
    assert (result.exit_code, "ready" in result.stdout) == (0, True)
    assert "MACHINE" not in result.stdout
    monkeypatch.setenv("MOORAGE_TOKEN", OPERATOR_KEY)
    asked = moor("status")
    shown = asked.stdout
    assert all(word in shown for word in ("0.10 GiB", "warning", "gtw_1", "MACHINE", "3 RUNNING"))
    assert "disk: Make room." in asked.stderr
    assert json.loads(moor("status", "--json").stdout)["operator"]["version"] == "0.1.0"


def test_status_when_not_ready(moor: Moor, fake: FakeMoorage) -> None:
    fake.ready = False
    result = moor("status")
    assert result.exit_code == 3
    assert "not ready" in result.stdout
    assert moor("--json", "status").exit_code == 3


def test_status_when_nothing_is_there(moor: Moor) -> None:
    result = moor("status", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 4
    assert "Cannot reach Moorage at http://127.0.0.1:9" in result.stderr
    assert "make up" in result.stderr


def test_a_get_survives_a_broken_connection(moor: Moor, fake: FakeMoorage) -> None:
    fake.unanswered_gets = 3
    assert moor("whoami").exit_code == 0


def test_a_post_is_repeated_and_happens_once(moor: Moor, fake: FakeMoorage) -> None:
    fake.unanswered_posts = 3
    assert moor("keys", "create", "--name", "ci").stdout == "moor_secret\n"
    assert len(fake.asked("POST", "/projects/prj_one/api-keys")) == 4
    assert len(fake.keys) == 1
    assert moor("keys", "create", "--name", "ci").exit_code == 0
    assert len(fake.keys) == 2, "the next one is another"


# Projects


def test_the_only_project_needs_no_choice(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("list").exit_code == 0
    assert fake.queries("/projects/prj_one/containers")


def test_several_projects_must_be_chosen_from(moor: Moor, fake: FakeMoorage, monkeypatch: Any) -> None:
    fake.projects.append(project("prj_two", "second"))
    result = moor("list")
    assert result.exit_code == 2
    assert "main, second" in result.stderr
    assert moor("list", "--project", "second").exit_code == 0
    assert moor("--project", "prj_two", "list").exit_code == 0
    assert moor("list", "--project", "third").exit_code == 7
    monkeypatch.setenv("MOORAGE_PROJECT", "second")
    assert moor("list").exit_code == 0
    monkeypatch.delenv("MOORAGE_PROJECT")
    assert moor("project", "use", "second").exit_code == 0
    assert moor("list").exit_code == 0
    assert len(fake.queries("/projects/prj_two/containers")) == 4


def test_a_manage_key_knows_its_project(moor: Moor, fake: FakeMoorage, monkeypatch: Any) -> None:
    monkeypatch.setenv("MOORAGE_TOKEN", MANAGE_KEY)
    assert moor("list").exit_code == 0
    assert fake.queries("/organizations") == []
    assert moor("list", "--project", "second").exit_code == 6


def test_create_a_project(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("project", "create", "next").exit_code == 0
    assert fake.asked("POST", "/organizations/org_one/projects") == [{"name": "next"}]
    names = [one["name"] for one in json.loads(moor("project", "list", "--json").stdout)]
    assert names == ["main", "next"]


# Looking at containers


def test_list_reads_every_page(moor: Moor, fake: FakeMoorage) -> None:
    fake.page_size = 2
    for number in range(5):
        fake.add_container(f"chat-{number}")
    assert "There are no" not in moor("list").stderr
    assert [one["name"] for one in json.loads(moor("list", "--json").stdout)] == [
        f"chat-{number}" for number in range(5)
    ]


def test_an_empty_list_says_how_to_go_on(moor: Moor) -> None:
    result = moor("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "moor deploy" in result.stderr


def test_describe_by_name_and_by_id(moor: Moor, fake: FakeMoorage) -> None:
    made = fake.add_container()
    for reference in (made["name"], made["id"]):
        shown = moor("describe", reference).stdout
        assert all(
            word in shown for word in (made["id"], made["endpoint_url"], "CHAT_TOKEN_DELAY_MS", "0.01 USD")
        )
    assert json.loads(moor("describe", "chat", "--json").stdout) == made


def test_describe_says_how_far_the_next_replica_is(moor: Moor, fake: FakeMoorage) -> None:
    made = fake.add_container()

    def said() -> list[str]:
        return [line for line in moor("describe", "chat").stdout.splitlines() if "image: 1 MiB" in line]

    assert said() == []
    made["progress"] = {"phase": "pull", "done_bytes": 2**20, "total_bytes": 2**21}
    assert [line.split(maxsplit=2) for line in said()] == [
        ["next", "replica", "pulling the image: 1 MiB of 2 MiB"]
    ]
    made["state"] = "PULLING"
    assert [line.split(maxsplit=1) for line in said()] == [["progress", "pulling the image: 1 MiB of 2 MiB"]]


def test_capsules_in_full_and_in_one_line(moor: Moor, fake: FakeMoorage) -> None:
    made = fake.add_container()
    assert "last crash" not in moor("describe", "chat").stdout
    assert "None of its replicas ended badly" in moor("capsules", "chat").stdout
    made["state"] = "FAILED"
    assert "exited: The process ended with exit code 3." in moor("describe", "chat").stdout
    shown = moor("capsules", "chat").stdout
    assert all(word in shown for word in ("rep_1", "7 × status 500 (controller)", "sha256:abc"))
    assert "no model ␛[31mfound" in shown
    assert json.loads(moor("capsules", "chat", "--json").stdout)[0]["exit_code"] == 3


def test_a_container_that_is_not_there(moor: Moor) -> None:
    for reference in ("absent", "ctr_absent"):
        result = moor("describe", reference, "--json")
        assert (result.exit_code, result.stdout) == (7, "")
        assert json.loads(result.stderr)["error"]["code"] == "not_found"


def test_replicas_events_and_instance_types(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    replicas = moor("replicas", "chat").stdout
    assert "rep_abcdef" in replicas
    assert "(community, standard, 0.984)" in " ".join(replicas.split())
    events = moor("events", "chat").stdout
    assert events.index("container.create") < events.index("container.state")
    types = moor("instance-types").stdout
    assert "1 × NVIDIA H200" in types
    assert "no such GPU" in types


def test_doctor_waits_for_the_answer(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.diagnoses = [{"state": "asked"}, DIAGNOSIS]
    said = moor("doctor", "chat")
    assert said.exit_code == 0, said.stderr
    assert "127.0.0.11, which asks 1.1.1.1" in said.stdout
    assert "169.254.169.254:80  no answer" in said.stdout
    assert said.stdout.endswith("1.1.1.1:443 does not answer.\n")
    fake.diagnoses = [{"state": "failed", "message": "No replica of it runs."}]
    failed = moor("doctor", "chat")
    assert (failed.exit_code, "No replica of it runs." in failed.stderr) == (1, True)


def test_explain_a_request(moor: Moor) -> None:
    said = moor("explain", "req_seen")
    assert said.exit_code == 0, said.stderr
    assert "ctr_0" in said.stdout
    assert said.stdout.endswith("It waited 60.0 s for a free replica.\nAll replicas were busy.\n")
    assert json.loads(moor("explain", "req_seen", "--json").stdout)["ended"] == "queue_timeout"
    assert moor("explain", "req_absent").exit_code == 7
    assert moor("explain", "../me").exit_code == 2


def test_explain_names_what_the_request_met(moor: Moor, fake: FakeMoorage) -> None:
    said = moor("explain", "req_seen")
    for words in (
        "POST /v1/embeddings",
        "chat",
        "mobile-app",
        "rep_abcdef, version 3 on gpu-node-04",
        "37 requests",
    ):
        assert words in said.stdout
    fake.log_lines = [
        {
            "time": "2026-01-31T12:00:01Z",
            "container_id": "ctr_0",
            "instance_id": "rep_abcdef",
            "stream": "stdout",
            "sequence": 0,
            "text": "busy \x1b]0;title\x07",
        }
    ]
    said = moor("explain", "req_seen", "--lines")
    assert said.stdout.splitlines()[-2].endswith("gateway      POST /v1/embeddings arrived")
    assert "rep_abcdef   busy" in said.stdout.splitlines()[-1]
    assert "\x07" not in said.stdout
    printed = json.loads(moor("explain", "req_seen", "--lines", "--json").stdout)["printed"]
    assert printed == fake.log_lines


def test_the_requests_of_a_container(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container("chat")
    said = moor("requests", "chat")
    assert said.exit_code == 0, said.stderr
    assert said.stdout.splitlines()[1].split()[0] == "req_seen"
    assert "60.00 s" in said.stdout
    assert "queue timeout" in said.stdout
    assert json.loads(moor("requests", "chat", "--json").stdout)[0]["key_name"] == "mobile-app"
    assert "None of its requests has a record" in moor("requests", "chat", "--failed").stderr


def test_scale_and_see_why(moor: Moor, fake: FakeMoorage) -> None:
    made = fake.add_container("chat")
    assert moor("scale", "chat").exit_code == 2
    said = moor("scale", "chat", "--max", "4", "--target-concurrency", "6")
    assert said.exit_code == 0, said.stderr
    assert "from 1 to 4 replicas, 6 requests at a time each" in said.stdout
    sent = fake.asked("POST", f"/containers/{made['id']}/scale")
    assert sent == [{"max_replicas": 4, "target_concurrency": 6}]
    why = moor("autoscaling", "chat").stdout
    assert "2 ready, 1 coming, 3 asked for" in why
    assert "Wants 5, capped by max 3." in why
    assert json.loads(moor("autoscaling", "chat", "--json").stdout)["replicas"]["desired"] == 3


def test_replay_other_settings(moor: Moor, fake: FakeMoorage) -> None:
    made = fake.add_container("chat")
    said = moor("autoscaling", "replay", "chat", "--since", "24h", "--target-concurrency", "6", "--max", "5")
    assert said.exit_code == 0, said.stderr
    assert "9.50" in said.stdout
    assert "7.25" in said.stdout
    assert "12.5%" in said.stdout
    (sent,) = fake.asked("POST", f"/containers/{made['id']}/autoscaling/replay")
    assert {name: sent[name] for name in sent if name != "since"} == {
        "target_concurrency": 6,
        "max_replicas": 5,
    }


def test_a_replay_says_what_was_foreseen_and_goes_without(moor: Moor, fake: FakeMoorage) -> None:
    made = fake.add_container("chat")
    assert "demand repeats by the kind of day" in moor("autoscaling", "replay", "chat").stdout
    assert "left out" in moor("autoscaling", "replay", "chat", "--no-forecast").stdout
    usual, without = fake.asked("POST", f"/containers/{made['id']}/autoscaling/replay")
    assert "forecast" not in usual
    assert without["forecast"] is False


# Deploying


def test_deploy_goes_through_the_states(moor: Moor, fake: FakeMoorage) -> None:
    fake.steps = [
        {"state": "PULLING", "progress": {"phase": "pull", "done_bytes": 1, "total_bytes": 2}},
        {"state": "PULLING", "progress": {"phase": "pull", "done_bytes": 2, "total_bytes": 2}},
        {"state": "STARTING", "progress": {"phase": "start", "limit_s": 60}},
        {"state": "RUNNING", "progress": None},
    ]
    result = moor("deploy", "--image", "local/chat:latest", "-e", "A=1")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:5] == ["PENDING", "PULLING", "STARTING", "RUNNING", "chat is RUNNING."]
    assert f"--retry-all-errors {fake.url}/c/ctr_0/api/v1/chat/completions" in result.stdout
    assert "$MOORAGE_API_KEY" in result.stdout
    assert fake.asked("POST", "/projects/prj_one/containers")[0]["env"] == {"A": "1"}


def test_deploy_from_the_example_file(moor: Moor, fake: FakeMoorage) -> None:
    fake.steps = [{"state": "RUNNING"}]
    example = Path(__file__).parents[2] / "examples/chat/container.toml"
    result = moor("deploy", "-f", str(example), "--name", "other", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["state"] == "RUNNING"
    assert result.stderr == ""
    assert fake.asked("POST", "/projects/prj_one/containers")[0]["name"] == "other"


def test_a_failed_deployment_tells_why(moor: Moor, fake: FakeMoorage) -> None:
    fake.log_lines = [log_line(number, f"line {number}") for number in range(12)]
    failed = {"state": "FAILED", "reason": "exited", "message": "The process ended with exit code 1."}
    fake.steps = [failed]
    result = moor("deploy", "--image", "local/chat")
    assert result.exit_code == 1
    assert "chat is FAILED (exited). The process ended with exit code 1." in result.stderr
    assert "line 11" in result.stdout
    assert "line 1\n" not in result.stdout
    fake.steps = [failed]
    machine = moor("deploy", "--image", "local/chat", "--json")
    assert machine.exit_code == 1
    assert json.loads(machine.stdout)["reason"] == "exited"
    assert json.loads(machine.stderr)["error"]["code"] == "exited"


def test_deploy_survives_an_api_that_restarts(moor: Moor, fake: FakeMoorage) -> None:
    fake.steps = [{"state": "PULLING"}, {"state": "RUNNING"}]
    made = moor("deploy", "--image", "local/chat", "--no-wait")
    assert made.exit_code == 0
    fake.unanswered_gets = 2
    assert moor("start", "chat").exit_code == 0


def test_ctrl_c_ends_the_watching_only(moor: Moor, fake: FakeMoorage) -> None:
    # As at a terminal, also when this run itself was started in the background, where Ctrl-C is ignored.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heard}; from moorage_cli.app import app; app(prog_name='moor')"
    arguments = [sys.executable, "-c", program, "deploy", "--image", "local/chat", "--name", "my chat"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "PENDING\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "The deployment continues" in errors
    assert "moor describe 'my chat'" in errors
    assert "Traceback" not in errors
    assert [one["state"] for one in fake.containers.values()] == ["PENDING"]


def test_the_first_deployment_creates_a_project(moor: Moor, fake: FakeMoorage) -> None:
    fake.projects = []
    result = moor("deploy", "--image", "local/chat", "--no-wait")
    assert result.exit_code == 0
    assert "created 'default'" in result.stderr
    assert "moor describe chat" in result.stdout
    assert fake.asked("POST", "/projects/prj_new/containers")


def test_field_errors_are_listed_one_by_one(moor: Moor, fake: FakeMoorage) -> None:
    errors = [{"field": "image", "message": "must be"}, {"field": "name", "message": "must not"}]
    problem = {"code": "invalid_input", "detail": "long", "errors": errors}
    fake.refusals["POST", "/projects/prj_one/containers"] = (422, problem)
    result = moor("deploy", "--image", "x")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-2:] == ["  image: must be", "  name: must not"]
    machine = moor("deploy", "--image", "x", "--json")
    assert json.loads(machine.stderr)["error"]["errors"] == errors


def test_a_name_that_is_taken(moor: Moor, fake: FakeMoorage) -> None:
    taken = {"code": "name_taken", "detail": "This project already has a container named x."}
    fake.refusals["POST", "/projects/prj_one/containers"] = (409, taken)
    result = moor("deploy", "--image", "x")
    assert result.exit_code == 1
    assert "--name" in result.stderr


def test_a_known_image_is_deployed_as_proposed_only_when_somebody_says_so(
    moor: Moor, fake: FakeMoorage
) -> None:
    fake.steps = [{"state": "RUNNING"}]
    plain = moor("deploy", "--image", "vllm/vllm-openai:v1", "--no-wait")
    assert "vLLM serves its API at /v1." in plain.stderr
    assert "--api-path /v1 --port 8001 --health-path /health" in plain.stderr, (
        "the port that the image exposes"
    )
    assert "api_path" not in fake.requests[-1][3]
    moor("deploy", "--image", "vllm/vllm-openai:v1", "--as-proposed", "--port", "9000", "--no-wait")
    sent = fake.requests[-1][3]
    assert (sent["api_path"], sent["port"], sent["health_check"]) == ("/v1", 9000, {"path": "/health"})
    moor("deploy", "--image", "vllm/vllm-openai:v1", "--api-path", "/api/v1", "--no-wait")
    assert fake.requests[-1][3]["api_path"] == "/api/v1"
    own = moor("deploy", "--image", "vllm/vllm:v1", "--command", "serve", "--as-proposed", "--no-wait")
    assert "say with --port where it listens" in own.stderr
    assert "port" not in fake.requests[-1][3]


@pytest.mark.long
def test_without_its_registrys_word_a_known_image_is_proposed_by_its_name(
    moor: Moor, fake: FakeMoorage
) -> None:
    fake.refusals["POST", "/projects/prj_one/containers/preflight"] = (
        503,
        {"code": "unavailable", "detail": "x"},
    )
    moor("deploy", "--image", "vllm/vllm-openai:v1", "--as-proposed", "--no-wait")
    assert fake.requests[-1][3]["port"] == 8000


# Changing containers


def test_stop_start_and_restart_wait(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    fake.steps = [{}, {"state": "STOPPED"}]
    assert moor("stop", "chat").stdout.splitlines()[-1] == "chat is STOPPED."
    assert moor("stop", "chat").stdout == "chat is STOPPED already.\n"
    fake.steps = [{"state": "RUNNING"}]
    assert "chat is RUNNING." in moor("start", "chat").stdout
    fake.steps = [{"state": "STARTING"}, {"state": "RUNNING"}]
    assert "STARTING" in moor("restart", "chat").stdout
    assert moor("restart", "chat", "--no-wait").stdout == "chat is PENDING.\n"


def test_restart_elsewhere(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    assert moor("restart", "chat", "--elsewhere", "--no-wait").exit_code == 0
    assert moor("restart", "chat", "--no-wait").exit_code == 0
    assert fake.asked("POST", "/containers/ctr_0/restart") == [{"avoid_current_nodes": True}, None]


def test_delete_asks_for_the_name(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    assert moor("delete", "chat", stdin="other\n").exit_code == 2
    assert moor("delete", "chat", stdin="").exit_code == 2
    assert fake.asked("DELETE", "/containers/ctr_0") == []
    fake.steps = [{}, {"state": "GONE"}]
    result = moor("delete", "chat", stdin="chat\n")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "chat is deleted.")


def test_delete_without_asking(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    result = moor("delete", "chat", "--yes", "--no-wait", "--json")
    assert json.loads(result.stdout) == {"id": "ctr_0", "name": "chat", "deleted": False}


# Keys


def test_a_new_key_stands_alone_on_stdout(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("keys", "create", "--name", "ci", "--scope", "manage", "--expires", "30d")
    assert result.stdout == "moor_secret\n"
    body = fake.asked("POST", "/projects/prj_one/api-keys")[0]
    assert (body["name"], body["scope"]) == ("ci", "manage")
    assert body["expires_at"].endswith("+00:00")
    assert moor("keys", "create", "--expires", "soon").exit_code == 2


def test_organizations(moor: Moor, config: Path) -> None:
    assert "ada" in moor("org", "list").stdout
    assert "org_two" in moor("org", "create", "research").stdout
    assert moor("org", "use", "research").exit_code == 7
    assert moor("org", "use", "ada").exit_code == 0
    assert 'organization = "org_one"' in config.read_text()


def test_an_organization_is_deleted_by_its_name_and_what_it_has(moor: Moor, fake: FakeMoorage) -> None:
    unasked = moor("org", "delete", "ada")
    assert unasked.exit_code == 2, "nobody was there to type it"
    assert "12.50 USD is left" in unasked.stderr
    assert moor("org", "delete", "ada", "--confirm", "ada").exit_code == 0
    assert moor("org", "delete", "ada", "--confirm", "ada", "--give-up", "12.50").exit_code == 0
    assert moor("org", "delete", "ada", stdin="ada\n").exit_code == 0
    said = [(query["name"], query["gives_up_microusd"]) for query in fake.queries("/organizations/org_one")]
    assert said == [("ada", "0"), ("ada", "12500000"), ("ada", "12500000")]


def test_an_organization_that_is_not_empty(moor: Moor, fake: FakeMoorage) -> None:
    fake.deletion["obstacles"] = [{"code": "machines", "message": "It lends 1 machine."}]
    refused = moor("org", "delete", "ada", "--confirm", "ada")
    assert refused.exit_code == 1
    assert "It lends 1 machine." in refused.stderr
    assert fake.queries("/organizations/org_one") == []


def test_members(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("members", "invite", "cy@example.com", "--role", "admin", "--into", "prj_one").exit_code == 0
    invited = {"email": "cy@example.com", "role": "admin", "project_id": "prj_one"}
    assert fake.asked("POST", "/organizations/org_one/invitations") == [invited]
    listed = moor("members", "list").stdout
    assert all(word in listed for word in ("ada@example.com", "bea@example.com", "cy@example.com", "invited"))
    assert moor("members", "withdraw", "cy@example.com").exit_code == 0
    assert moor("members", "withdraw", "cy@example.com").exit_code == 7
    assert moor("members", "role", "bea@example.com", "admin").stdout == "bea@example.com is now admin.\n"
    assert "revoked 1 keys" in moor("members", "remove", "usr_2").stdout
    assert moor("members", "remove", "usr_2", "--keep-keys").exit_code == 0
    queries = fake.queries("/organizations/org_one/members/usr_2")
    assert [one["revoke_keys"] for one in queries if one] == ["true", "false"]
    assert moor("members", "remove", "eve@example.com").exit_code == 7


def test_delete_project(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("project", "delete", "main", stdin="").exit_code == 2
    assert moor("project", "delete", "main", stdin="main\n").exit_code == 0
    assert fake.queries("/projects/prj_one") == [{"name": "main"}]
    assert fake.projects == []


def test_rotate_disable_enable_key(moor: Moor, fake: FakeMoorage) -> None:
    moor("keys", "create", "--name", "ci")
    rotated = moor("keys", "rotate", "ci", "--overlap", "10m")
    assert (rotated.exit_code, rotated.stdout) == (0, "moor_rotated\n")
    assert fake.asked("POST", "/api-keys/key_0/rotate") == [{"overlap_s": 600}]
    assert moor("keys", "disable", "key_1").stdout == "Disabled key_1.\n"
    assert "disabled" in moor("keys", "list").stdout
    assert moor("keys", "enable", "key_1").stdout == "Enabled key_1.\n"
    assert fake.asked("PATCH", "/api-keys/key_1") == [{"disabled": True}, {"disabled": False}]


def test_limits_and_last_use_of_keys(moor: Moor, fake: FakeMoorage) -> None:
    assert moor("keys", "create", "--name", "ci", "--limit", "60").exit_code == 0
    assert fake.keys[0]["requests_per_minute"] == 60
    fake.keys[0] |= {"last_used_at": "2026-11-15T05:00:00Z", "last_used_from": "192.0.2.7"}
    for shown in (moor("keys", "list").stdout, moor("keys", "show", "ci").stdout):
        assert "60/min" in shown
        assert "from 192.0.2.7" in " ".join(shown.split())
    assert moor("keys", "limit", "ci", "90").stdout == "ci (key_0): 90/min.\n"
    assert moor("keys", "limit", "ci", "none").stdout == "ci (key_0): none.\n"
    for wrong in ("-1", "many", "1.5"):
        assert moor("keys", "limit", "ci", "--", wrong).exit_code == 2
    fake.keys[0] |= {"status": "expired", "message": "Refused: it expired."}
    assert "Refused: it expired." in moor("keys", "show", "key_0").stdout


def test_list_and_revoke_keys(moor: Moor, fake: FakeMoorage) -> None:
    moor("keys", "create", "--name", "one")
    moor("keys", "create", "--name", "two")
    moor("keys", "create", "--name", "two")
    assert "…wxyz" in moor("keys", "list").stdout
    assert moor("keys", "revoke", "one").exit_code == 0
    assert "key_1, key_2" in moor("keys", "revoke", "two").stderr
    assert moor("keys", "revoke", "absent").exit_code == 7
    assert moor("keys", "revoke", "key_2").exit_code == 0
    assert [one["id"] for one in fake.keys] == ["key_1"]


# Wrong use


@pytest.mark.parametrize(
    "arguments", [["lsit"], ["list", "--nonsense"], ["describe"], ["keys", "create", "--scope", "x"]]
)
def test_wrong_use(moor: Moor, arguments: list[str]) -> None:
    assert moor(*arguments).exit_code == 2
    machine = moor(*arguments, "--json")
    assert (machine.exit_code, machine.stdout) == (2, "")
    assert json.loads(machine.stderr)["error"]["code"] == "usage"


def test_an_address_that_is_not_moorage(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("login", "--url", f"{fake.url}/elsewhere", "--key", "k")
    assert result.exit_code == 1
    assert "not as Moorage does" in result.stderr


def test_help_lists_the_exit_codes(moor: Moor) -> None:
    shown = " ".join(moor("--help").stdout.split())
    assert "5 not signed in" in shown
    assert "--install-completion" in shown


def test_top_shows_the_last_known_step(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container()
    lines = moor("top").stdout.splitlines()
    assert " ".join(lines[1].split()) == "chat RUNNING 1/1 12.3 42 - - - - - 0.50 6 MiB 87 %"
    query = fake.queries("/containers/ctr_0/metrics")[0]
    asked = [datetime.fromisoformat(query[name]) for name in ("from", "to")]
    assert (asked[1] - asked[0]).total_seconds() == 10
    assert asked[0].timestamp() % 10 == 0
    assert json.loads(moor("top", "--json").stdout)[0]["metrics"]["request_rate"] == 12.34


def test_the_server_of_these_tests_cannot_drift(moor: Moor, fake: FakeMoorage) -> None:
    fake.add_container(colour="red", version="four")
    moor("list")
    assert any("$.items[0].colour: not described" in one for one in fake.drift)
    assert any("'four' is not of type 'integer'" in one for one in fake.drift)
    fake.drift.clear()

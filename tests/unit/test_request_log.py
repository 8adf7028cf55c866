"""What HAProxy logs, as it was seen to log it, and what becomes of it."""

from datetime import UTC, datetime, timedelta

import pytest

from moorage.gateway.request_collection import MAX_RECORDS, RequestCollection
from moorage.gateway.request_log import LoggedRequest, parse
from moorage.identity.api_keys.uses import KeyUse
from moorage.telemetry.requests.record import Ending, receipt

PROJECT, CONTAINER, REPLICA = (
    "prj_aaaaaaaaaaaaaaaaaaaa",
    "ctr_bbbbbbbbbbbbbbbbbbbb",
    "rep_cccccccccccccccccccc",
)
KEY = f"{PROJECT}:9007199254740992:key_dddddddddddddddddddd"
ROUTE = f"{PROJECT}:{CONTAINER}:7"
NOW = datetime(2026, 11, 15, 5, 0, tzinfo=UTC)


def line(
    *,
    timers: str = "0 3 1 40 889",
    status: int = 200,
    state: str = "--",
    server: str = REPLICA,
    key: str = KEY,
    route: str = ROUTE,
    began_s: int = 1794718800,
    client: str = "192.0.2.7",
    asked: str = "0 POST /v1/chat/completions",
) -> bytes:
    return f"req_1 {began_s} 250 0 50 {timers} {status} 210 4700 {state} {server} {key} {route} {client} {asked}".encode()


def parsed(**changes: object) -> LoggedRequest:
    request = parse(line(**changes))  # type: ignore[arg-type]
    assert request is not None
    return request


def test_a_request_that_went_well() -> None:
    record = parsed().record()
    assert (record.request_id, record.project_id, record.container_id) == ("req_1", PROJECT, CONTAINER)
    assert (record.key_id, record.replica_id) == ("key_dddddddddddddddddddd", REPLICA)
    # The connection was idle for 50 ms before the request began.
    assert record.started_at == datetime(2026, 11, 15, 5, 0, 0, 300_000, tzinfo=UTC)
    assert (record.queue_ms, record.connect_ms, record.first_byte_ms, record.total_ms) == (3, 1, 44, 889)
    assert (record.status, record.request_bytes, record.response_bytes) == (200, 210, 4700)
    assert record.ended is Ending.COMPLETED
    assert parsed().ended_at_s == pytest.approx(1794718801.189)


@pytest.mark.parametrize(
    ("state", "server", "status", "ended", "shown_status"),
    [
        ("--", REPLICA, 500, Ending.COMPLETED, 500),
        ("CH", REPLICA, 400, Ending.CLIENT_LEFT, None),
        ("CQ", "<NOSRV>", 400, Ending.CLIENT_LEFT, None),
        ("CD", REPLICA, 200, Ending.CLIENT_LEFT, 200),
        ("cD", REPLICA, 200, Ending.CLIENT_TIMEOUT, 200),
        ("SH", REPLICA, 502, Ending.CONTAINER_CLOSED, 502),
        ("SD", REPLICA, 200, Ending.CONTAINER_CLOSED, 200),
        ("PH", REPLICA, 502, Ending.CONTAINER_CLOSED, 502),
        ("sH", REPLICA, 504, Ending.CONTAINER_TIMEOUT, 504),
        ("SC", REPLICA, 502, Ending.UNREACHABLE, 502),
        ("sC", REPLICA, 502, Ending.UNREACHABLE, 502),
        ("sQ", "<NOSRV>", 503, Ending.QUEUE_TIMEOUT, 503),
        ("LR", "<NOSRV>", 404, Ending.REFUSED, 404),
        ("PR", "<NOSRV>", 429, Ending.REFUSED, 429),
        ("KD", REPLICA, 200, Ending.CUT_OFF, 200),
        ("RC", REPLICA, 500, Ending.GATEWAY_FAILED, 500),
        ("?-", REPLICA, 500, Ending.GATEWAY_FAILED, 500),
    ],
)
def test_endings(state: str, server: str, status: int, ended: Ending, shown_status: int | None) -> None:
    record = parsed(state=state, server=server, status=status).record()
    assert (record.ended, record.status) == (ended, shown_status)
    assert record.replica_id == (REPLICA if server == REPLICA else None)
    words = receipt(record)
    assert all(sentence.endswith(".") for sentence in words)
    assert ("reached no replica" in " ".join(words)) == (
        server != REPLICA and ended is not Ending.CLIENT_LEFT
    )


def test_a_receipt() -> None:
    assert receipt(parsed().record()) == [
        "The request arrived at 2026-11-15 05:00:00.300 UTC and was answered with 200; it took 889 ms.",
        "It waited 3 ms for a free replica.",
        f"It reached replica {REPLICA} after 1 ms.",
        "The answer began 44 ms after the request did.",
        "The whole answer was sent.",
        "210 bytes came in, 4,700 bytes went out.",
    ]


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        ("0 POST /v1/chat/completions", (0, "POST", "/v1/chat/completions")),
        ("+2 GET -", (2, "GET", None)),
        ("- - -", (None, None, None)),
    ],
)
def test_what_was_asked_for_and_how_often(
    asked: str, known: tuple[int | None, str | None, str | None]
) -> None:
    record = parsed(asked=asked).record()
    assert (record.retries, record.method, record.path) == known


def test_a_line_of_the_version_before_is_read() -> None:
    before = parse(line().removesuffix(b" 0 POST /v1/chat/completions"))
    assert before is not None
    assert before.client_address == "192.0.2.7"
    record = before.record()
    assert (record.retries, record.method, record.path) == (None, None, None)


def test_what_did_not_happen_is_none() -> None:
    record = parsed(timers="0 -1 -1 -1 0", status=404, state="LR", server="<NOSRV>", route="-").record()
    assert (record.queue_ms, record.connect_ms, record.first_byte_ms) == (None, None, None)
    assert record.container_id is None


def test_somebody_elses_container_is_none() -> None:
    foreign = f"prj_zzzzzzzzzzzzzzzzzzzz:{CONTAINER}:7"
    record = parsed(status=404, state="LR", server="<NOSRV>", route=foreign).record()
    assert (record.project_id, record.container_id) == (PROJECT, None)


def test_without_a_key_it_is_nobodys() -> None:
    assert parse(line(key="-")) is None


@pytest.mark.parametrize("wrong", [b"", b"req_1 2 3", line() + b" more", b"\xff\xfe"])
def test_other_lines_are_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="not a request"):
        parse(wrong)


def test_all_are_counted_and_some_recorded() -> None:
    collection = RequestCollection(records_per_s=20)
    for _ in range(100):
        collection.take(parsed())
    for _ in range(30):
        collection.take(parsed(status=500))
    batch = collection.batch(NOW, everything=True)
    assert batch is not None
    assert [sum(record.status == status for record in batch.records) for status in (200, 500)] == [20, 30]
    (((container_id, began_s), figures),) = batch.figures.items()
    assert (container_id, began_s) == (CONTAINER, 1794718800)
    assert (figures.requests, figures.statuses[2], figures.statuses[5]) == (130, 100, 30)
    assert list(figures.keys.values()) == [130], "by the key of every one, also of those without a record"
    assert collection.batch(NOW, everything=True) is None


def test_a_step_is_stored_once_it_is_over() -> None:
    collection = RequestCollection(records_per_s=0)
    collection.take(parsed())
    began = 1794718800
    early = collection.batch(datetime.fromtimestamp(began + 11, UTC))
    assert early is not None
    assert early.figures == {}
    due = collection.batch(datetime.fromtimestamp(began + 12, UTC))
    assert due is not None
    assert len(due.figures) == 1


def test_what_waits_is_bounded() -> None:
    collection = RequestCollection(records_per_s=0)
    failed = parsed(status=500)
    for _ in range(MAX_RECORDS + 5):
        collection.take(failed)
    assert collection.dropped == 5
    batch = collection.batch(NOW, everything=True)
    assert batch is not None
    assert len(batch.records) == MAX_RECORDS
    assert sum(figures.requests for figures in batch.figures.values()) == MAX_RECORDS + 5


def test_a_key_is_noted_once_in_a_minute() -> None:
    collection = RequestCollection(records_per_s=0)
    key_id, minute = "key_dddddddddddddddddddd", datetime(2026, 11, 15, 5, 0, tzinfo=UTC)

    def noted() -> list[KeyUse]:
        batch = collection.batch(NOW, everything=True)
        return [batch.uses[key_id]] if batch is not None and batch.uses else []

    for client in ("192.0.2.7", "192.0.2.8"):
        collection.take(parsed(client=client))
    assert noted() == [KeyUse(minute, "192.0.2.7")]
    collection.take(parsed(client="192.0.2.8"))
    assert noted() == []
    collection.take(parsed(began_s=1794718800 + 60, client="2001:db8::1"))
    # One that ended earlier and is read later takes nothing back.
    collection.take(parsed(client="192.0.2.9"))
    assert noted() == [KeyUse(minute + timedelta(minutes=1), "2001:db8::1")]

"""What sleep saves, since when idleness is known, and what whoever holds a request makes of it."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.autoscaling.sleep.idle import Known, Reporting, known_by_all
from moorage.containers.sleep.state import saved_microusd
from moorage.gateway.holding.messages import (
    late_answer,
    parse_head,
    sent_on,
)
from moorage.telemetry.requests.held import Held, Wake, phases, told
from moorage.telemetry.requests.record import Ending, RequestRecord

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("begin", "end", "paid_until", "replicas", "saved"),
    [
        (ago(60), NOW, None, 1, 600_000),
        (ago(60), NOW, ago(30), 1, 300_000),
        (ago(60), NOW, ago(-30), 1, 0),
        (ago(60), NOW, ago(90), 2, 1_200_000),
        (ago(0), NOW, None, 1, 0),
    ],
)
def test_saved(
    begin: datetime, end: datetime, paid_until: datetime | None, replicas: int, saved: int
) -> None:
    assert saved_microusd(begin, end, paid_until, replicas, 600_000) == saved


def test_idleness_is_known_only_while_all_gateways_report() -> None:
    one, other = Reporting(ago(60), NOW), Reporting(ago(5), ago(0.05))
    assert known_by_all([one], NOW) == Known(ago(60), NOW)
    assert known_by_all([one, other], NOW) == Known(ago(5), ago(0.05))
    assert known_by_all([one, Reporting(ago(60), ago(1))], NOW) is None
    assert known_by_all([one, Reporting(None, None)], NOW) is None
    assert known_by_all([], NOW) is None


def _request(body: bytes, *headers: str) -> tuple[bytes, bytes]:
    lines = ["POST /v1/x HTTP/1.1", "Host: a", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n", body


def test_what_goes_on_is_what_came_but_for_what_is_ours() -> None:
    raw, _ = _request(
        b"",
        "X-Moorage-Container: ctr_a",
        "X-Moorage-Key: key_a",
        "X-Moorage-Organization: org_a",
        "Expect: 100-continue",
        "A: b: c",
        "a: d",
    )
    on = sent_on(parse_head(raw)).decode()
    assert on.startswith(
        "POST /v1/x HTTP/1.1\r\nHost: a\r\nX-Moorage-Container: ctr_a\r\nA: b: c\r\na: d\r\n"
    )
    assert on.endswith("\r\nConnection: close\r\n\r\n")
    assert "Expect" not in on
    assert "key_a" not in on
    assert "org_a" not in on
    raw, _ = _request(b"", "Connection: Upgrade", "Upgrade: websocket")
    assert "Connection: Upgrade" in sent_on(parse_head(raw)).decode()


def test_what_was_promised_plain_events_does_not_ask_for_compressed_ones() -> None:
    raw, _ = _request(b"", "accept-encoding: gzip, deflate", "Accept-Encoding: br", "A: b")
    head = parse_head(raw)
    assert "accept-encoding: gzip, deflate\r\nAccept-Encoding: br\r\n" in sent_on(head).decode()
    begun = sent_on(head, begun=True).decode()
    assert [line for line in begun.split("\r\n") if "encoding" in line.lower()] == [
        "Accept-Encoding: identity"
    ]
    assert "\r\nA: b\r\n" in begun


def test_an_answer_that_comes_after_the_promise_of_events_is_one() -> None:
    assert late_answer(200, b'{"a": 1}', "req_1") == b'data: {"a": 1}\n\n'
    assert (
        late_answer(400, b'{"error": {"code": "x"}}', "req_1")
        == b'event: error\ndata: {"error": {"code": "x"}}\n\n'
    )
    said = late_answer(500, b"<html>", "req_1").decode()
    assert said.startswith("event: error\ndata: ")
    assert json.loads(said.partition("data: ")[2])["error"]["request_id"] == "req_1"


def _record(total_ms: int, first_byte_ms: int | None) -> RequestRecord:
    return RequestRecord(
        "req_1",
        "prj_1",
        "ctr_1",
        "key_1",
        None,
        NOW,
        0,
        0,
        first_byte_ms,
        total_ms,
        200,
        1,
        2,
        Ending.COMPLETED,
    )


def _held(held_ms: int, comments: int = 0) -> Held:
    return Held(NOW, held_ms, 1, 64, "rep_1", None, comments)


def test_the_wait_is_split_by_phase_without_a_gap() -> None:
    second = timedelta(seconds=1)
    wake = Wake(
        NOW - 41 * 60 * second,
        NOW + 0.05 * second,
        NOW + 0.06 * second,
        NOW + 0.8 * second,
        NOW + 2.6 * second,
    )
    found = phases(_record(4200, 2800), _held(2620), wake)
    assert [(one.name, one.duration_ms) for one in found] == [
        ("queued", 50),
        ("woken.placed", 10),
        ("woken.started", 740),
        ("woken.loaded", 1800),
        ("woken.routed", 20),
        ("to_first_byte", 180),
        ("answering", 1400),
    ]
    said = told(_record(4200, 2800), _held(2620), wake, ["It arrived.", "It ended."])
    assert said[:2] == [
        "It arrived.",
        "It waited 2.62 s for the container to wake, which had been asleep for 41 min.",
    ]
    assert (said[-1], len(said)) == ("It ended.", 10)


@given(st.lists(st.integers(-5000, 20_000), min_size=4, max_size=4), st.integers(0, 15_000), st.booleans())
def test_phases_add_up_whatever_the_clocks_say(moments: list[int], held_ms: int, streams: bool) -> None:
    at = [NOW + timedelta(milliseconds=one) for one in moments]
    record = _record(held_ms + 500, 10 if streams else held_ms + 100)
    found = phases(record, _held(held_ms, int(streams)), Wake(ago(5), at[0], at[1], at[2], at[3]))
    assert all(one.duration_ms >= 0 for one in found)
    assert sum(one.duration_ms for one in found) == held_ms + 500


def test_of_a_wake_that_nobody_knows_the_wait_is_one_phase() -> None:
    names = [one.name for one in phases(_record(300, 200), _held(100), None)]
    assert names == ["queued", "to_first_byte", "answering"]

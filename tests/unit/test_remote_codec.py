"""The wire format: what goes in comes out, and what does not fit is refused with its place."""

import builtins
import collections.abc
import json
import types
import typing
from dataclasses import fields
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NewType, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.engines.base import (
    DiskSpace,
    GpuDevice,
    GpuUsage,
    Image,
    ImageRequest,
    LogChunk,
    LogStream,
    NodeCapacity,
    ObservedReplica,
    PulledImage,
    ReplicaPhase,
    ReplicaSpec,
    ReplicaUsage,
)
from moorage.engines.diagnosis import NetworkDiagnosis, NetworkQuestions
from moorage.engines.remote.codec import ANSWERS, REQUESTS, WireError, cleaned, decode, parse, to_bytes
from moorage.engines.remote.frames import Frame, FrameKind, FrameParser, pack_chunks, to_wire, unpack_chunks
from moorage.engines.remote.messages import CALLS, argument_types, error_of, failure_of
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import new_container_id, new_replica_id

_IDS = st.just("rep_abcdefghijklmnopqrst")
_READABLE = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=10)
_TIMES = st.integers(0, 2**33).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
_PLAIN = {
    bool: st.booleans(),
    int: st.integers(1, 65535),
    float: st.floats(-1e9, 1e9),
    datetime: _TIMES,
    type(None): st.none(),
}


def _values(kind: Any, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any value of a type as it stands in the protocol."""
    if isinstance(kind, NewType):
        return _IDS
    if kind in _PLAIN or kind is str:
        return _PLAIN.get(kind, text)
    of = [_values(one, text) for one in get_args(kind) if one is not ...]
    match get_origin(kind):
        case types.UnionType | typing.Union:
            return st.one_of(of)
        case collections.abc.Mapping:
            return st.dictionaries(*of, max_size=2)
        case builtins.tuple:
            return st.lists(*of, max_size=2).map(tuple)
        case None:
            pass
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    hints = get_type_hints(kind)
    return st.builds(kind, **{one.name: _values(hints[one.name], text) for one in fields(kind)})


_FEW = settings(max_examples=20, deadline=None)


@pytest.mark.parametrize(
    "kind",
    [
        *(ObservedReplica, NodeCapacity, Image, PulledImage, ReplicaUsage, GpuUsage, DiskSpace, GpuDevice),
        NetworkDiagnosis,
    ],
)
@_FEW
@given(data=st.data())
def test_answers_come_out_as_they_went_in(kind: type, data: st.DataObject) -> None:
    value = data.draw(_values(kind, _READABLE))
    assert decode(kind, parse(to_bytes(value)), ANSWERS) == value


@pytest.mark.parametrize("kind", [ReplicaSpec, ImageRequest, NetworkQuestions])
@_FEW
@given(data=st.data())
def test_requests_are_exact_to_the_character(kind: type, data: st.DataObject) -> None:
    value = data.draw(_values(kind, st.text(max_size=30)))
    assert decode(kind, parse(to_bytes(value)), REQUESTS) == value


def _observed(**changes: Any) -> dict[str, Any]:
    observed = ObservedReplica(
        replica_id=new_replica_id(),
        container_id=new_container_id(),
        slot=0,
        generation=1,
        engine_id="abc",
        phase=ReplicaPhase.RUNNING,
        host="127.0.0.1",
        host_port=20000,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        ended_at=None,
        exit_code=None,
        out_of_memory=False,
    )
    return json.loads(to_bytes(observed)) | changes


def test_what_is_not_known_yet_is_ignored() -> None:
    assert decode(ObservedReplica, _observed(mood="fine"), ANSWERS).slot == 0


def test_what_is_missing_takes_its_default_or_is_refused() -> None:
    node = {"name": "a", "infrastructure": "b", "architecture": "c", "cpu_millis": 1, "memory_bytes": 1}
    assert decode(NodeCapacity, node | {"gpus": []}, ANSWERS).weaknesses == ()
    with pytest.raises(WireError, match=r"it\.gpus is missing"):
        decode(NodeCapacity, node, ANSWERS)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"phase": "levitating"},
            "phase must be one of waiting, pulling, created, running, exited, and is 'levitating'",
        ),
        ({"phase": None}, "phase must be one of"),
        ({"replica_id": "../../etc/passwd"}, "replica_id must be an identifier"),
        ({"replica_id": 7}, "replica_id must be an identifier"),
        ({"slot": -1}, "slot must be a whole number from 0"),
        ({"slot": True}, "slot must be a whole number"),
        ({"slot": 1.5}, "slot must be a whole number"),
        ({"generation": 2**31}, "generation must be a whole number"),
        ({"host_port": 65536}, "host_port must be a whole number from 1 to 65535"),
        ({"exit_code": 2**31}, "exit_code must be a whole number"),
        ({"started_at": "yesterday"}, "started_at must be a time"),
        ({"started_at": "2026-01-01T00:00:00"}, "started_at must have a time zone"),
        ({"started_at": "9999-12-31T23:59:59-23:00"}, "started_at must be a time"),
        ({"started_at": 5}, "started_at must be a time"),
        ({"out_of_memory": 1}, "out_of_memory must be true or false"),
        ({"engine_id": "x" * 4097}, "engine_id must not have more than 4096 characters"),
        ({"host": 5}, "host must be text"),
    ],
)
def test_what_does_not_fit(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(ObservedReplica, _observed(**changes), ANSWERS)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b"NaN",
        b"[Infinity]",
        b"[" * 100,
        b"[" * 40 + b"]" * 40,
        b"[" + b"0," * 300_000 + b"0]",
        b"9" * 5000,
    ],
)
def test_what_is_no_json_of_ordinary_size(text: bytes) -> None:
    with pytest.raises(WireError):
        parse(text)


@pytest.mark.parametrize("number", [1e300, -1e300, 1e16, "1", None, True])
def test_numbers_are_of_ordinary_size(number: Any) -> None:
    with pytest.raises(WireError):
        decode(float, number, ANSWERS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – text", "plain – text"),
        ("\x1b[2Jgone", "\ufffd[2Jgone"),
        ("a\x00b\x7f", "a\ufffdb\ufffd"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),
        ("half \ud800", "half \ufffd"),
        ("two\nlines\tapart", "two\nlines\tapart"),
    ],
)
def test_text_is_cleaned(text: str, shown: str) -> None:
    assert cleaned(text) == shown


@pytest.mark.parametrize(
    "error",
    [
        EngineError("away"),
        EngineError("taken", code="port_taken"),
        EngineError("gone", code="replica_gone"),
        ImageError("full", code="disk_full"),
        StartError("no such command", code="start_command_not_found"),
    ],
)
def test_errors_arrive_as_they_were_raised(error: EngineError) -> None:
    arrived = error_of(failure_of(error))
    assert (type(arrived), arrived.code, arrived.message) == (type(error), error.code, error.message)


@pytest.mark.parametrize("kind", ["start", "image", "engine", "lease", ""])
def test_a_code_that_an_error_cannot_have_is_the_machines_own_trouble(kind: str) -> None:
    arrived = error_of(failure_of(EngineError("x")).__class__(kind, "insufficient_credit", "pay"))
    assert (type(arrived), arrived.code) == (EngineError, "engine_error")


def test_every_call_of_the_protocol_has_types() -> None:
    assert len(CALLS) == 21
    assert all("return" not in argument_types(call) for call in CALLS)


_CHUNKS = st.lists(
    st.builds(
        LogChunk, st.integers(0, 2**62), st.sampled_from(LogStream), st.binary(max_size=50), st.booleans()
    )
)


@_FEW
@given(_CHUNKS)
def test_output_comes_out_as_it_went_in(chunks: list[LogChunk]) -> None:
    payloads = list(pack_chunks(chunks))
    assert [one for payload in payloads for some in unpack_chunks(payload, 2**63) for one in some] == chunks


def test_much_output_is_several_frames() -> None:
    chunk = LogChunk(1, LogStream.STDOUT, b"x" * 16_384, ends_line=False)
    payloads = list(pack_chunks([chunk] * 100))
    assert len(payloads) > 5
    assert [one for payload in payloads for some in unpack_chunks(payload, 1) for one in some] == [
        chunk
    ] * 100


@_FEW
@given(st.lists(st.builds(Frame, st.sampled_from(FrameKind), st.binary(max_size=20)), max_size=8), st.data())
def test_frames_come_out_however_they_are_cut(frames: list[Frame], data: st.DataObject) -> None:
    text, parser, found = b"".join(map(to_wire, frames)), FrameParser(), []
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += parser.feed(text[:size])
        text = text[size:]
    assert found == frames


@pytest.mark.parametrize("text", [b"\x09\0\0\0\0", b"\x01\xff\xff\xff\xff", b"\x01\x00\x20\x00\x01"])
def test_frames_that_are_none(text: bytes) -> None:
    with pytest.raises(WireError):
        FrameParser().feed(text)


@pytest.mark.parametrize(
    "payload", [b"\0", b"\0" * 12, b"\0" * 8 + b"\x04" + b"\0" * 4, b"\0" * 9 + b"\0\0\0\x02x"]
)
def test_output_that_is_none(payload: bytes) -> None:
    with pytest.raises(WireError):
        list(unpack_chunks(payload, 0))

"""Questions and answers about names, as they travel."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.engines.docker.dns_message import answer_of, question_for

_RECORD_A = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4)
_ALIAS = b"\xc0\x0c" + struct.pack("!HHIH", 5, 1, 60, 2) + b"\xc0\x0c"


def answer(*records: bytes, code: int = 0, name: str = "moorage.test") -> bytes:
    header = struct.pack("!6H", 7, 0x8180 | code, 1, len(records), 0, 0)
    return header + question_for(name, 7)[12:] + b"".join(records)


def test_question() -> None:
    assert question_for("moorage.test.", 7) == (
        b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"\x07moorage\x04test\x00" + b"\x00\x01\x00\x01"
    )


@pytest.mark.parametrize(
    ("message", "addresses", "failure"),
    [
        (answer(_RECORD_A + bytes([192, 0, 2, 7])), ["192.0.2.7"], None),
        (
            answer(_ALIAS, _RECORD_A + bytes([192, 0, 2, 7]), _RECORD_A + bytes([192, 0, 2, 8])),
            ["192.0.2.7", "192.0.2.8"],
            None,
        ),
        (answer(), [], "that the name has no IPv4 address"),
        (answer(_ALIAS), [], "that the name has no IPv4 address"),
        (answer(code=2), [], "that it could not find out (SERVFAIL)"),
        (answer(code=3), [], "that there is no such name (NXDOMAIN)"),
        (answer(code=5), [], "that it refuses to answer (REFUSED)"),
        (answer(code=9), [], "error 9"),
        (answer(_RECORD_A), [], "something that is no answer"),
        (question_for("moorage.test", 7), [], "something that is no answer"),
        (b"", [], "something that is no answer"),
    ],
)
def test_answer(message: bytes, addresses: list[str], failure: str | None) -> None:
    assert answer_of(message) == (addresses, failure)


@given(st.binary(max_size=600))
def test_whatever_a_hostile_resolver_sends(message: bytes) -> None:
    addresses, failure = answer_of(message)
    assert bool(addresses) != bool(failure)

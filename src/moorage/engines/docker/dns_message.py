"""One question for the addresses of a name, and its answer, as they travel (RFC 1035). Pure.

The system's own resolver cannot be used from another network namespace: it reads this machine's `/etc/resolv.conf`,
and tells "no such name" and "no answer" apart only with luck.
"""

import ipaddress
import struct

_HEADER = struct.Struct("!6H")
_RECORD = struct.Struct("!HHIH")
_RECURSION_DESIRED = 0x0100
_IS_ANSWER = 0x8000
_TYPE_A, _CLASS_IN = 1, 1
_POINTER = 0xC0
_LONGEST_LABEL = 63
_FAILURES = {
    1: "that it does not understand the question",
    2: "that it could not find out (SERVFAIL)",
    3: "that there is no such name (NXDOMAIN)",
    5: "that it refuses to answer (REFUSED)",
}


def question_for(name: str, identity: int) -> bytes:
    labels = name.rstrip(".").encode("ascii").split(b".")
    packed = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return (
        _HEADER.pack(identity, _RECURSION_DESIRED, 1, 0, 0, 0)
        + packed
        + struct.pack("!HH", _TYPE_A, _CLASS_IN)
    )


def answer_of(message: bytes) -> tuple[list[str], str | None]:
    """The addresses, or why there are none."""
    try:
        return _answer_of(message)
    except (struct.error, IndexError, ValueError):
        return [], "something that is no answer"


def _answer_of(message: bytes) -> tuple[list[str], str | None]:
    _, flags, questions, answers, _, _ = _HEADER.unpack_from(message)
    code = flags & 0x000F
    if not flags & _IS_ANSWER:
        return [], "something that is no answer"
    if code:
        return [], _FAILURES.get(code, f"error {code}")
    at = _HEADER.size
    for _ in range(questions):
        at = _after_name(message, at) + 4
    addresses = []
    for _ in range(answers):
        at = _after_name(message, at)
        kind, family, _, length = _RECORD.unpack_from(message, at)
        at += _RECORD.size
        if kind == _TYPE_A and family == _CLASS_IN and length == 4:
            addresses.append(str(ipaddress.IPv4Address(message[at : at + 4])))
        at += length
    return addresses, None if addresses else "that the name has no IPv4 address"


def _after_name(message: bytes, at: int) -> int:
    """Names are skipped, never followed: a pointer ends one, so no loop of them can hold us."""
    while length := message[at]:
        if length & _POINTER == _POINTER:
            return at + 2
        if length > _LONGEST_LABEL:
            raise IndexError("a label longer than any can be")
        at += 1 + length
    return at + 1

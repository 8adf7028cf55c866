import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kit.errors import InvalidInputError
from moorage.kit.pagination import Position, decode_cursor, encode_cursor
from moorage.telemetry.logs.reading.positions import (
    MAX_SEQUENCE,
    LinePosition,
    TailPosition,
    decode_tail,
    encode_tail,
    from_page_position,
    to_page_position,
)

times = st.datetimes(timezones=st.just(UTC))
sequences = st.integers(0, MAX_SEQUENCE)


@given(times, sequences)
def test_page_position_round_trip(time: datetime, sequence: int) -> None:
    position = LinePosition(time, sequence, "rep_abc")
    assert from_page_position(decode_cursor(encode_cursor(to_page_position(position)))) == position


@given(times, st.dictionaries(st.text("abc_"), sequences))
def test_tail_round_trip(as_of: datetime, next_sequences: dict[str, int]) -> None:
    position = TailPosition(as_of, next_sequences)
    assert decode_tail(encode_tail(position)) == position


@pytest.mark.parametrize("last_id", ["", "x", "1", "1.", "-1.rep_a", "²5.rep_a", f"{MAX_SEQUENCE + 1}.rep_a"])
def test_foreign_page_position(last_id: str) -> None:
    with pytest.raises(InvalidInputError):
        from_page_position(Position(datetime(2026, 1, 1, tzinfo=UTC), last_id))


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        ["2026-01-01T00:00:00+00:00"],
        ["2026-01-01T00:00:00", {}],
        ["no time", {}],
        ["2026-01-01T00:00:00+00:00", []],
        ["2026-01-01T00:00:00+00:00", {"rep_a": -1}],
        ["2026-01-01T00:00:00+00:00", {"rep_a": MAX_SEQUENCE + 1}],
        ["2026-01-01T00:00:00+00:00", {"rep_\x00": 1}],
        ["2026-01-01T00:00:00+00:00", {"rep_a": "many"}],
    ],
)
def test_foreign_tail_position(plain: object) -> None:
    with pytest.raises(InvalidInputError):
        decode_tail(base64.urlsafe_b64encode(json.dumps(plain).encode()).decode())


@given(st.text(max_size=100))
def test_any_text_is_a_clear_refusal(cursor: str) -> None:
    with pytest.raises(InvalidInputError):
        decode_tail(cursor)

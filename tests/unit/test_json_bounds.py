"""What a JSON text holds is known before it is parsed."""

import json

from hypothesis import given
from hypothesis import strategies as st

from moorage.kit.json_bounds import MOST_BARE_BYTES, MOST_LEVELS, MOST_VALUES, excess_of

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=50,
)


@given(documents, st.booleans())
def test_what_is_small_passes(document: object, ascii_only: bool) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert excess_of(text) is None


@given(st.text(alphabet='[{,"\\x', max_size=3000))
def test_what_stands_in_a_string_counts_as_one_value(text: str) -> None:
    assert excess_of(json.dumps({"env": {"A": text * 10}}).encode()) is None


def test_too_many_values() -> None:
    assert excess_of(json.dumps([[]] * (MOST_VALUES // 2 - 1)).encode()) is None
    for value in ([], {}, 1, "", "x", [["a"]], {"a": 1}):
        text = json.dumps([value] * (MOST_VALUES + 1)).encode()
        assert excess_of(text) == f"must not have more than {MOST_VALUES} values", value
    names = json.dumps({str(number): "\\" for number in range(MOST_VALUES + 2)}).encode()
    assert "values" in (excess_of(names) or "")


def test_too_deep() -> None:
    assert excess_of(b"[" * MOST_LEVELS + b"]" * MOST_LEVELS) is None
    assert "deeper" in (excess_of(b"[" * (MOST_LEVELS + 1)) or "")
    assert "deeper" in (excess_of(b'{"a":' * 500) or "")


def test_other_encodings_and_much_beside_strings() -> None:
    assert "UTF-8" in (excess_of(json.dumps([[]] * 5000).encode("utf-16")) or "")
    assert "outside" in (excess_of(b"[" + b" " * MOST_BARE_BYTES + b"]") or "")

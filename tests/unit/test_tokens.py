import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.identity.tokens import (
    API_KEY_PREFIX,
    OPERATOR_KEY_PREFIX,
    SESSION_PREFIX,
    csrf_token,
    is_well_formed,
    new_token,
)

PREFIXES = [API_KEY_PREFIX, OPERATOR_KEY_PREFIX, SESSION_PREFIX]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_token_is_of_its_own_kind_only(prefix: str) -> None:
    for _ in range(200):
        token = new_token(prefix)
        assert [other for other in PREFIXES if is_well_formed(token, other)] == [prefix]


@given(st.text(max_size=60))
def test_anything_else_is_not_a_token(text: str) -> None:
    assert not any(is_well_formed(text, prefix) for prefix in PREFIXES)


@given(st.integers(5, 40))
def test_one_wrong_character_shows(position: int) -> None:
    token = new_token(API_KEY_PREFIX)
    other = "a" if token[position] != "a" else "b"
    assert not is_well_formed(token[:position] + other + token[position + 1 :], API_KEY_PREFIX)


def test_csrf_tokens_belong_to_their_session() -> None:
    assert csrf_token("moor_ses_a") != csrf_token("moor_ses_b")
    assert csrf_token("moor_ses_a") == csrf_token("moor_ses_a")

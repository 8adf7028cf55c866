"""A machine's life and its tokens: the whole table, and what holds in every life."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.machines.states import SPEAKERS, Happening, Life, MachineState, Refusal, Speaker, after
from moorage.machines.tokens import admits, is_credential, is_join_token, is_machine_secret, new_join_token
from moorage.machines.words import change_mail, sentence

J, A, P, D, L, R = MachineState
NOT_JOINED, IN_USE, GONE = "machine_not_joined", "machine_in_use", "machine_removed"

TABLE = {
    #                    answered silent  pause       resume      drain       remove  leave
    J:                   (A,      J,      NOT_JOINED, NOT_JOINED, NOT_JOINED, R,      R),
    A:                   (A,      L,      P,          A,          D,          R,      R),
    P:                   (P,      L,      P,          A,          D,          R,      R),
    D:                   (D,      L,      P,          A,          D,          R,      R),
    L:                   (A,      L,      L,          L,          L,          R,      R),
    R:                   (GONE,   GONE,   GONE,       GONE,       GONE,       GONE,   GONE),
}  # fmt: skip
CELLS = [
    (state, happening, expected)
    for state, row in TABLE.items()
    for happening, expected in zip(Happening, row, strict=True)
]
lives = st.lists(st.tuples(st.sampled_from(Happening), st.booleans(), st.integers(0, 2)), max_size=30)


@pytest.mark.parametrize(("state", "happening", "expected"), CELLS)
def test_table(state: MachineState, happening: Happening, expected: MachineState | str) -> None:
    outcome = after(Life(state, A if state is L else None), happening)
    assert (outcome.code if isinstance(outcome, Refusal) else outcome.state) == expected


def test_whose_word_it_is() -> None:
    by = {
        speaker: {happening for happening, its in SPEAKERS.items() if its is speaker} for speaker in Speaker
    }
    assert by == {
        Speaker.MOORAGE: {Happening.ANSWERED, Happening.SILENT},
        Speaker.OPERATOR: {Happening.PAUSE, Happening.RESUME, Happening.DRAIN, Happening.REMOVE},
        Speaker.MACHINE: {Happening.LEAVE},
    }


@pytest.mark.parametrize("state", [A, P, D])
def test_replicas_are_drained_before_a_machine_is_removed(state: MachineState) -> None:
    refusal = after(Life(state, replicas=2), Happening.REMOVE)
    assert isinstance(refusal, Refusal)
    assert refusal.code == IN_USE
    assert "2 replicas" in refusal.sentence
    forced = after(Life(state, replicas=2), Happening.REMOVE, forced=True)
    assert isinstance(forced, Life)
    assert forced.state is R


def test_a_lost_machine_can_always_be_removed() -> None:
    outcome = after(Life(L, A, replicas=2), Happening.REMOVE)
    assert isinstance(outcome, Life)
    assert outcome.state is R


@pytest.mark.parametrize(
    ("happening", "then"), [(Happening.PAUSE, P), (Happening.RESUME, A), (Happening.DRAIN, D)]
)
def test_what_is_said_of_a_lost_machine_holds_when_it_is_back(
    happening: Happening, then: MachineState
) -> None:
    told = after(Life(L, D), happening)
    assert isinstance(told, Life)
    assert told.state is L
    back = after(told, Happening.ANSWERED)
    assert back == Life(then)


@given(lives)
def test_every_life(happenings: list[tuple[Happening, bool, int]]) -> None:
    life = Life(J)
    for happening, forced, replicas in happenings:
        life = Life(life.state, life.before_loss, replicas)
        outcome = after(life, happening, forced=forced)
        if isinstance(outcome, Refusal):
            assert outcome.sentence.endswith(".")
            continue
        assert (outcome.state is L) == (outcome.before_loss is not None)
        assert life.state is not R, "what is removed never comes back"
        assert outcome.replicas == replicas
        again = after(outcome, happening, forced=forced)
        assert again == outcome or outcome.state is R, "to say it twice is to say it once"
        if outcome.state not in (life.state, J, L):
            subject, text = change_mail("rack-7", life, outcome)
            assert "rack-7" in subject
            assert sentence(outcome.state) in text
        life = outcome
    ended = after(life, Happening.REMOVE, forced=True)
    assert isinstance(ended, Refusal) == (life.state is R), "there is always a way out"


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expires_in_s", "used_with", "brought", "lets_in"),
    [
        (1, None, b"me", True),
        (1, b"me", b"me", True),
        (1, b"me", b"somebody else", False),
        (0, None, b"me", False),
        (0, b"me", b"me", False),
        (-1800, None, b"me", False),
    ],
)
def test_whom_a_token_lets_in(
    expires_in_s: int, used_with: bytes | None, brought: bytes, lets_in: bool
) -> None:
    expires_at = NOW + timedelta(seconds=expires_in_s)
    assert admits(expires_at=expires_at, used_with=used_with, brought=brought, now=NOW) is lets_in


def test_kinds_of_secrets_are_not_confused() -> None:
    token = new_join_token()
    assert is_join_token(token)
    assert not is_credential(token)
    assert not is_machine_secret(token)
    assert not is_join_token(token[:-1] + ("a" if token[-1] != "a" else "b"))

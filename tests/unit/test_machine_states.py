"""A machine's life and its tokens: the whole table, and what holds in every life."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.machines.states import (
    OPEN,
    SPEAKERS,
    Happening,
    Life,
    MachineState,
    Refusal,
    Speaker,
    after,
    new_life,
)
from moorage.machines.tokens import admits, is_credential, is_join_token, is_machine_secret, new_join_token
from moorage.machines.words import change_mail, sentence

J, A, P, D, L, R, V, O, B = MachineState  # noqa: E741 - probation is "on trial": O
NOT_JOINED, IN_USE, GONE = "machine_not_joined", "machine_in_use", "machine_removed"

HELD, BANNED = "machine_held", "machine_banned"
TABLE = {
    #    answered silent pause       resume      drain       remove leave verified promoted demoted distrusted  reclaim     ban unban
    J:   (A,      J,     NOT_JOINED, NOT_JOINED, NOT_JOINED, R,     R,    J,       J,       J,      NOT_JOINED, NOT_JOINED, B,  J),
    V:   (V,      L,     P,          V,          D,          R,     R,    O,       V,       V,      P,          D,          B,  V),
    O:   (O,      L,     P,          O,          D,          R,     R,    O,       A,       O,      P,          D,          B,  O),
    A:   (A,      L,     P,          A,          D,          R,     R,    A,       A,       O,      P,          D,          B,  A),
    P:   (P,      L,     P,          A,          D,          R,     R,    P,       P,       P,      P,          D,          B,  P),
    D:   (D,      L,     P,          A,          D,          R,     R,    D,       D,       D,      P,          D,          B,  D),
    L:   (A,      L,     L,          L,          L,          R,     R,    L,       L,       L,      L,          L,          B,  L),
    B:   (B,      B,     BANNED,     BANNED,     BANNED,     R,     B,    B,       B,       B,      BANNED,     BANNED,     B,  J),
    R:   (GONE,   GONE,  GONE,       GONE,       GONE,       GONE,  GONE, GONE,    GONE,    GONE,   GONE,       GONE,       GONE, GONE),
}  # fmt: skip
CELLS = [
    (state, happening, expected)
    for state, row in TABLE.items()
    for happening, expected in zip(Happening, row, strict=True)
]
lives = st.lists(st.tuples(st.sampled_from(Happening), st.booleans(), st.integers(0, 2)), max_size=30)


@pytest.mark.parametrize(("state", "happening", "expected"), CELLS)
def test_table(state: MachineState, happening: Happening, expected: MachineState | str) -> None:
    standing = state if state in OPEN else A
    outcome = after(Life(state, A if state is L else None, standing=standing), happening)
    assert (outcome.code if isinstance(outcome, Refusal) else outcome.state) == expected


def test_whose_word_it_is() -> None:
    by = {
        speaker: {happening for happening, who in SPEAKERS.items() if speaker in who} for speaker in Speaker
    }
    owners = {Happening.PAUSE, Happening.RESUME, Happening.DRAIN, Happening.REMOVE, Happening.RECLAIM}
    judged = {Happening.VERIFIED, Happening.PROMOTED, Happening.DEMOTED, Happening.DISTRUSTED}
    assert by == {
        Speaker.MOORAGE: {Happening.ANSWERED, Happening.SILENT, Happening.RESUME, *judged},
        Speaker.OPERATOR: owners | {Happening.BAN, Happening.UNBAN},
        Speaker.OWNER: owners,
        Speaker.MACHINE: {Happening.LEAVE},
    }


def test_a_strangers_machine_proves_itself_first() -> None:
    life = new_life(is_lent=True)
    path = [life.state]
    for happening in (
        Happening.ANSWERED,
        Happening.PROMOTED,
        Happening.VERIFIED,
        Happening.PROMOTED,
        Happening.DEMOTED,
    ):
        outcome = after(life, happening)
        assert isinstance(outcome, Life)
        life = outcome
        path.append(life.state)
    assert path == [J, V, V, O, A, O]
    assert after(new_life(is_lent=False), Happening.ANSWERED) == Life(A)


@pytest.mark.parametrize(
    ("stopped_by", "may_resume"),
    [
        (Speaker.OWNER, {Speaker.OWNER, Speaker.OPERATOR, Speaker.MOORAGE}),
        (Speaker.OPERATOR, {Speaker.OPERATOR}),
        (Speaker.MOORAGE, {Speaker.OPERATOR, Speaker.MOORAGE}),
    ],
)
@pytest.mark.parametrize("lost", [False, True])
def test_whose_stop_may_be_taken_back(stopped_by: Speaker, may_resume: set[Speaker], lost: bool) -> None:
    stopped = (
        Life(L, P, standing=O, stopped_by=stopped_by, is_lent=True)
        if lost
        else Life(P, standing=O, stopped_by=stopped_by, is_lent=True)
    )
    for speaker in (Speaker.OWNER, Speaker.OPERATOR, Speaker.MOORAGE):
        outcome = after(stopped, Happening.RESUME, speaker=speaker)
        if speaker not in may_resume:
            assert isinstance(outcome, Refusal)
            assert outcome.code == HELD
            continue
        assert isinstance(outcome, Life)
        assert (outcome.before_loss or outcome.state) is (V if stopped_by is Speaker.MOORAGE else O)


def test_an_owner_does_not_get_round_the_operators_pause() -> None:
    life = Life(P, stopped_by=Speaker.OPERATOR, is_lent=True)
    for happening in (Happening.DRAIN, Happening.RECLAIM, Happening.PAUSE):
        outcome = after(life, happening, speaker=Speaker.OWNER)
        assert isinstance(outcome, Life)
        assert outcome.stopped_by is Speaker.OPERATOR


def test_who_is_banned_proves_itself_anew() -> None:
    banned = after(Life(A, is_lent=True), Happening.BAN)
    assert isinstance(banned, Life)
    back = after(banned, Happening.UNBAN)
    assert back == new_life(is_lent=True)


def test_an_owner_does_not_make_a_ban_forgotten() -> None:
    """Their organization lends no other while there is a banned one."""
    banned = Life(B, standing=O, is_lent=True)
    refusal = after(banned, Happening.REMOVE, speaker=Speaker.OWNER, forced=True)
    assert isinstance(refusal, Refusal)
    assert refusal.code == BANNED
    assert after(banned, Happening.LEAVE, speaker=Speaker.MACHINE) == banned


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
    assert isinstance(back, Life)
    assert (back.state, back.before_loss) == (then, None)


@given(lives)
def test_every_life(happenings: list[tuple[Happening, bool, int]]) -> None:
    life = new_life(is_lent=True)
    for happening, forced, replicas in happenings:
        life = replace(life, replicas=replicas)
        outcome = after(life, happening, forced=forced)
        if isinstance(outcome, Refusal):
            assert outcome.sentence.endswith(".")
            continue
        assert (outcome.state is L) == (outcome.before_loss is not None)
        assert life.state is not R, "what is removed never comes back"
        assert outcome.replicas == replicas
        again = after(outcome, happening, forced=forced)
        assert again == outcome or outcome.state is R, "to say it twice is to say it once"
        assert outcome.standing in OPEN
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

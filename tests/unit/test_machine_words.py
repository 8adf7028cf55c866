"""What the operator is told of machines: each mail says what happened, and what to do."""

from datetime import UTC, datetime

import pytest

from moorage.machines.states import Life, MachineState
from moorage.machines.words import ToldMachine, change_mail, condition, losses_mail

J, A, P, D, L, R, *_ = MachineState
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "after", "subject", "to_do"),
    [
        (J, A, "The machine rack-7 is ready", "the console proposes one"),
        (P, A, "The machine rack-7 is active again", "You need not do anything."),
        (A, P, "The machine rack-7 is paused", "    moor machines resume rack-7"),
        (A, D, "The machine rack-7 drains", "    moor machines show rack-7"),
        (D, R, "The machine rack-7 was removed", "    moor-node leave"),
    ],
)
def test_a_change(before: MachineState, after: MachineState, subject: str, to_do: str) -> None:
    told, text = change_mail("rack-7", Life(before), Life(after))
    assert told == subject
    assert to_do in text


def test_one_that_left_by_itself_is_not_told_as_removed() -> None:
    subject, text = change_mail("rack-7", Life(A), Life(R), left=True)
    assert subject == "The machine rack-7 has left"
    assert "    moor machines add --name rack-7" in text


@pytest.mark.parametrize(
    ("life", "has_joined", "told"),
    [
        (Life(J), False, "Its join command has not been run, or has not finished."),
        (Life(J), True, "It has joined, but has not answered through the tunnel yet."),
        (Life(A), True, "It takes containers."),
        (Life(D, replicas=1), True, "Its replicas are moving to other machines."),
        (Life(D), True, "It is empty: switch it off, or remove it."),
        (Life(L, before_loss=A), True, "It does not answer. Its replicas are replaced elsewhere."),
        (
            Life(L, before_loss=P),
            True,
            "It does not answer. Its replicas are replaced elsewhere. When it answers again, it is paused.",
        ),
    ],
)
def test_a_condition(life: Life, has_joined: bool, told: str) -> None:
    assert condition(life, has_joined=has_joined) == told


def test_what_a_proof_lacked_comes_with_when_it_is_tried_again() -> None:
    told = condition(
        Life(MachineState.VERIFYING),
        has_joined=True,
        proof_failure="Its memory did not hold what it was filled with.",
    )
    assert told == (
        "It is proving the hardware that it claims. Nothing runs there yet. Its memory did not hold what it was filled with. "
        "It can try again 10 minutes after it failed."
    )


def test_what_holds_a_machine_is_no_proof_that_it_can_try_again() -> None:
    told = condition(
        Life(MachineState.VERIFYING),
        has_joined=True,
        held_because="The operator looks into it.",
        proof_failure="Its memory did not hold what it was filled with.",
    )
    assert told.endswith("Nothing runs there yet. The operator looks into it.")


def test_one_is_lost_and_comes_back() -> None:
    subject, text = losses_mail([ToldMachine("rack-7", L, AT)])
    assert subject == "The machine rack-7 does not answer"
    assert "has not answered since 03:04:05 UTC" in text
    assert "    moor machines remove rack-7" in text
    subject, text = losses_mail([ToldMachine("rack-7", P, AT)])
    assert subject == "The machine rack-7 answers again"
    assert "It takes no new replicas. Those that run stay." in text


def test_many_are_lost_together_and_some_come_back() -> None:
    lost = [ToldMachine(f"rack-{number:02}", L, AT) for number in range(25)]
    subject, text = losses_mail(lost)
    assert subject == "25 machines do not answer"
    assert "    rack-19, since 03:04:05 UTC\n    and 5 more: moor machines list\n" in text
    assert "rack-20" not in text
    subject, text = losses_mail([*lost[:2], ToldMachine("rack-99", A, AT)])
    assert subject == "2 machines do not answer, 1 machine answers again"
    assert "    rack-99: It takes containers." in text

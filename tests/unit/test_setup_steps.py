"""The operator's checklist: what counts as done, as missing, and as not looked at."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moorage.engines.base import GpuDevice, HostFinding, NodeCapacity
from moorage.entrypoints.health_parts import Certificate
from moorage.entrypoints.setup_steps import (
    Step,
    StepState,
    backup_step,
    gpus_step,
    isolation_step,
    machines_step,
    mail_step,
    missing_first,
    payments_step,
    sign_in_step,
    tls_step,
)
from moorage.kit.settings import Settings
from moorage.telemetry.operator_repository import Mails

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NONE_SENT = Mails(0, None, None)
PLAIN = NodeCapacity("one", "operator", "amd64", 8000, 2**34, ())
GPU = GpuDevice("GPU-1", "NVIDIA L4", 24 * 2**30)
WITH_GPU = replace(
    PLAIN, name="two", gpus=(GPU,), gpu_handover="cdi", gpu_handover_reason="there is a CDI file"
)


def settings(**values: Any) -> Settings:
    return Settings(home=Path("/nowhere"), **values)


def certificate(name: str, days: int) -> Certificate:
    return Certificate(name, f"/etc/{name}.pem", NOW + timedelta(days=days))


SERVED = settings(api_certificate="/a", gateway_certificate="/b")
MISSING, UNKNOWN, DONE = StepState.MISSING, StepState.UNKNOWN, StepState.DONE


@pytest.mark.parametrize(
    ("step", "state", "words"),
    [
        (mail_step(settings(), NONE_SENT, NOW), MISSING, "No mail server"),
        (
            mail_step(settings(smtp_host="mx.test"), NONE_SENT, NOW),
            UNKNOWN,
            "has not sent a mail yet",
        ),
        (
            mail_step(settings(smtp_host="mx.test"), Mails(3, "550 no", NOW), NOW),
            MISSING,
            "550 no; 3 waiting",
        ),
        (
            mail_step(settings(smtp_host="mx.test"), Mails(0, None, NOW - timedelta(minutes=5)), NOW),
            DONE,
            "the last mail went out 5 minutes ago, 0 waiting",
        ),
        (payments_step(settings()), MISSING, "Neither cards nor bank transfers"),
        (payments_step(settings(stripe_secret_key="sk_live_1")), MISSING, "without the secret"),
        (
            payments_step(settings(stripe_secret_key="sk_test_1", stripe_webhook_secret="whsec")),
            DONE,
            "Cards by Stripe, test mode.",
        ),
        (payments_step(settings(bank_details_local="IBAN")), DONE, "Bank transfers to 1 account."),
        (sign_in_step(settings()), MISSING, "Neither Google nor GitHub"),
        (sign_in_step(settings(github_client_id="it")), DONE, "With GitHub, or a code by e-mail."),
        (backup_step(settings(), None, NOW), MISSING, "There is no backup yet."),
        (backup_step(settings(), NOW - timedelta(days=5), NOW), MISSING, "5 days old"),
        (backup_step(settings(), NOW - timedelta(hours=3), NOW), DONE, "3 hours ago"),
        (tls_step(settings(), [], NOW), MISSING, "only this machine can connect"),
        (tls_step(settings(api_listen="0.0.0.0:80"), [], NOW), MISSING, "0.0.0.0:80 speak plain HTTP"),
        (tls_step(settings(public_url="https://it.test"), [], NOW), UNKNOWN, "which Moorage cannot check"),
        (tls_step(SERVED, [certificate("api", 90), certificate("gateway", 60)], NOW), DONE, "2026-04-30"),
        (tls_step(SERVED, [certificate("api", 90), certificate("gateway", 5)], NOW), MISSING, "2026-03-06"),
        (tls_step(SERVED, [certificate("api", -1)], NOW), MISSING, "has expired"),
        (tls_step(SERVED, [Certificate("api", "/a", None)], NOW), MISSING, "/a cannot be read"),
        (isolation_step(settings(), []), UNKNOWN, "No machine"),
        (isolation_step(settings(isolation="waived"), [PLAIN]), MISSING, "is waived"),
        (isolation_step(settings(), [PLAIN]), DONE, "The machine keeps containers apart."),
        (isolation_step(settings(), [PLAIN, WITH_GPU]), DONE, "All 2 machines keep containers apart."),
        (isolation_step(settings(), [replace(PLAIN, closed_because="no iptables")]), MISSING, "no iptables"),
        (isolation_step(settings(), [replace(PLAIN, weaknesses=("no root",))]), MISSING, "one: no root."),
        (gpus_step([]), UNKNOWN, "No machine"),
        (gpus_step([PLAIN]), DONE, "No machine has a GPU"),
        (gpus_step([PLAIN, WITH_GPU]), DONE, "1 GPU of 1 machine handed over."),
        (gpus_step([replace(PLAIN, gpu_handover_reason="no driver")]), MISSING, "no driver"),
        (
            gpus_step([replace(WITH_GPU, findings=(HostFinding("x", "It hangs.", "reboot", broken=True),))]),
            MISSING,
            "two: It hangs.",
        ),
        (machines_step([]), MISSING, "There is no machine yet."),
        (machines_step([replace(PLAIN, ready=False)]), MISSING, "No machine answers."),
        (machines_step([replace(PLAIN, cordoned=True)]), MISSING, "none takes new replicas"),
        (
            machines_step([PLAIN, replace(WITH_GPU, owner="org_1"), replace(PLAIN, ready=False)]),
            DONE,
            "1 of yours, 1 of the community; 2 of 3 take replicas.",
        ),
    ],
)
def test_a_step(step: Step, state: StepState, words: str) -> None:
    assert step.state is state
    assert words in step.message
    # What is missing says what follows from it; what is done or unknown has nothing to warn of.
    assert (step.consequence is not None) is (state is MISSING)


def test_what_is_missing_comes_first_and_the_order_is_kept_otherwise() -> None:
    steps = [
        Step("a", DONE, ""),
        Step("b", UNKNOWN, ""),
        Step("c", MISSING, ""),
        Step("d", DONE, ""),
        Step("e", MISSING, ""),
    ]
    assert "".join(step.name for step in missing_first(steps)) == "cebad"


def test_a_backup_is_of_everything_where_there_is_a_key_to_encrypt_it_for() -> None:
    assert backup_step(settings(), None, NOW).command == "moor backup FILE"
    assert backup_step(settings(backup_recipient="age1" + 58 * "q"), None, NOW).command == "moor backup"

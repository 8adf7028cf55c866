"""The operator's health page over HTTP, from what is really there."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from api_support import Api
from api_support import api_fixture as api_fixture
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import text

from moorage.kit.clock import system_clock
from moorage.notifications.repository import queue_mail
from moorage.reconcile.lease import LeaseKeeper
from moorage.reconcile.status import record_run


def write_certificate(path: Path, not_after: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cloud.example.com")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(not_after - timedelta(days=90))
        .not_valid_after(not_after)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


async def health(api: Api) -> tuple[str, dict[str, dict[str, str | None]]]:
    answer = await api.get(api.operator, "/operator/health")
    assert answer.status_code == 200, answer.text
    return answer.json()["state"], {part["name"]: part for part in answer.json()["parts"]}


async def test_every_part(api: Api, tmp_path: Path) -> None:
    certificate = tmp_path / "cloud.pem"
    write_certificate(certificate, datetime.now(UTC) + timedelta(days=5))
    settings = api.app.state.settings
    api.app.state.settings = settings.model_copy(
        update={"home": tmp_path, "gateway_certificate": certificate, "smtp_host": "mail.example.com"}
    )
    lease = await LeaseKeeper(api.database, "ledger", "here:1", system_clock).acquire()
    assert lease is not None
    await record_run(api.database, lease, "here:1", None, 0)
    await record_run(api.database, lease, "here:1", "The ledger differs in 1 places.", 0)
    async with api.database.transaction() as session:
        await queue_mail(session, api.app.state.keyring, to="a@example.com", subject="hello", text="x")
        await session.execute(
            text("UPDATE mails SET created_at = now() - interval '1 hour', error = 'connection refused'")
        )
    state, parts = await health(api)
    assert state == "failing"
    assert parts["database"]["state"] == "ok"
    assert parts["reconciler ledger"]["message"] == "The ledger differs in 1 places."
    assert parts["reconciler ledger"]["since"] is not None
    assert parts["reconciler containers"]["message"] == "Has never run."
    assert parts["mail queue"]["state"] == "warning"
    assert "connection refused" in str(parts["mail queue"]["message"])
    assert parts["webhook queue"]["state"] == "ok"
    assert parts["certificate gateway_certificate"]["state"] == "warning"
    assert parts["backup"]["state"] == "unknown"
    assert str(tmp_path) in str(parts["disk"]["message"])
    (tmp_path / "last-backup").touch()
    certificate.write_text("nonsense")
    _, parts = await health(api)
    assert parts["backup"]["state"] == "ok"
    assert parts["certificate gateway_certificate"]["state"] == "failing"

"""Identifiers: a prefix that says what it is, and 100 random bits in lower-case base32.

Lower case and digits only, so that an id is also a valid engine name, label and (with its
underscore turned into a hyphen) host name.
"""

import secrets
from typing import NewType

UserId = NewType("UserId", str)
SessionId = NewType("SessionId", str)
OrganizationId = NewType("OrganizationId", str)
ProjectId = NewType("ProjectId", str)
ContainerId = NewType("ContainerId", str)
ReplicaId = NewType("ReplicaId", str)
ApiKeyId = NewType("ApiKeyId", str)
GatewayId = NewType("GatewayId", str)
MachineId = NewType("MachineId", str)
InstallationId = NewType("InstallationId", str)

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_LENGTH = 20


def new_user_id() -> UserId:
    return UserId(_new("usr"))


def new_session_id() -> SessionId:
    return SessionId(_new("ses"))


def new_sign_in_code_id() -> str:
    return _new("code")


def new_organization_id() -> OrganizationId:
    return OrganizationId(_new("org"))


def new_project_id() -> ProjectId:
    return ProjectId(_new("prj"))


def new_container_id() -> ContainerId:
    return ContainerId(_new("ctr"))


def new_replica_limit_request_id() -> str:
    return _new("rlr")


def new_replica_id() -> ReplicaId:
    return ReplicaId(_new("rep"))


def new_api_key_id() -> ApiKeyId:
    return ApiKeyId(_new("key"))


def new_webhook_id() -> str:
    return _new("whk")


def new_webhook_message_id() -> str:
    return _new("msg")


def new_cache_id() -> str:
    return _new("cch")


def new_gateway_id() -> GatewayId:
    return GatewayId(_new("gtw"))


def new_machine_id() -> MachineId:
    return MachineId(_new("mch"))


def new_installation_id() -> InstallationId:
    return InstallationId(_new("ins"))


def new_mail_id() -> str:
    return _new("mail")


def new_invitation_id() -> str:
    return _new("inv")


def new_audit_record_id() -> str:
    return _new("aud")


def new_activity_id() -> str:
    return _new("act")


def new_attempt_id() -> str:
    return _new("try")


def new_transaction_id() -> str:
    return _new("txn")


def new_hour_id() -> str:
    return _new("hour")


def new_top_up_id() -> str:
    return _new("top")


def new_payout_id() -> str:
    return _new("pay")


def new_credit_id() -> str:
    return _new("crd")


def new_request_id() -> str:
    return _new("req")


def _new(prefix: str) -> str:
    return f"{prefix}_" + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))

"""The door of a Pod: a small HAProxy beside the replica that proves whose Pod this is (`engines/doors.py`). Pure.

It takes TLS with the certificate of this replica and passes on what is inside, byte for byte, to the Pod's own address: a server
that listens on loopback only is as unreachable as on every other engine. It is a sidecar in Kubernetes' own sense: it begins before
the replica and ends after it, and a kubelet starts it again by itself.

Before each handshake the door tries whether the replica takes a connection, and takes none itself where it does not. So whoever
connects learns the same as without a door, that nothing listens there, before it has sent anything: a gateway may ask another
replica, whatever the request is and however long. HAProxy connects to a server only when a handshake is over, so there are two
stages: on the *street* bytes are not looked at and the replica is tried, in the *hall* there is TLS.
"""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from moorage.engines.base import ReplicaSpec
from moorage.engines.doors import Authority, door_certificate
from moorage.engines.kubernetes.names import DOOR, door_secret_of

FOLDER = "/door"
PORTS = (8443, 8444)
"""The second one is for replicas that listen on the first."""
CONFIG_FILE, CERTIFICATE_FILE, TRIAL_FILE = "door.cfg", "door.pem", "trial.lua"
COMMAND = ("haproxy", "-db", "-C", FOLDER, "-f", CONFIG_FILE)
REQUESTED_MEMORY, MEMORY_LIMIT = "24Mi", "256Mi"
_CONNECTIONS = 2000
"""At a time. Each takes about 110 KiB while it moves something, and what the kernel keeps for it."""
_IDLE = "25h"
"""Longer than any request may take: who is idle for too long is decided at the gateway."""
_HELLO_S = 10
"""Within which whoever connects has to begin its handshake."""
_TRIAL_S = 0.1
"""For a connection within one Pod. HAProxy's Lua pauses as long and tries three times more before it says that there is none."""
_LOOKS_WHILE_DOWN_MS = 50
_LOOKS_WHILE_UP_S = 1


def door_port(port: int) -> int:
    """Where the door of a replica listens that listens on `port`."""
    return PORTS[1] if port == PORTS[0] else PORTS[0]


def door_container(image: str, port: int) -> dict[str, Any]:
    return {
        "name": DOOR,
        "image": image,
        # The operator's own, by digest: a door that is started again asks nobody for it.
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": list(COMMAND),
        "ports": [{"containerPort": door_port(port), "protocol": "TCP"}],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {
            "requests": {"cpu": "10m", "memory": REQUESTED_MEMORY},
            # No limit of its CPU: it does what a gateway asks, and would only slow its own replica down.
            "limits": {"memory": MEMORY_LIMIT},
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": DOOR, "mountPath": FOLDER, "readOnly": True}],
    }


def door_volume(spec: ReplicaSpec) -> dict[str, Any]:
    """Mounted into the door alone: the replica's own process never sees its key."""
    # For everybody, because it is the only one that sees it, and is nobody in particular.
    return {"name": DOOR, "secret": {"secretName": door_secret_of(spec.replica_id), "defaultMode": 0o444}}


def door_data(spec: ReplicaSpec, authority: Authority, now: datetime) -> dict[str, str]:
    """What the door's Secret holds."""
    return {
        **door_program(spec.port),
        CERTIFICATE_FILE: door_certificate(authority, spec.replica_id, now),
    }


def door_program(port: int) -> dict[str, str]:
    """What a door of a replica that listens on `port` does, and is not secret."""
    return {CONFIG_FILE: door_config(port), TRIAL_FILE: _trial(port)}


def door_config(port: int) -> str:
    """HAProxy's, in a form that every version from 2.4 on reads, built with Lua as they commonly are."""
    # Of this network namespace, which is the Pod's. Whoever else is in it finds there what is also on the street.
    hall = f"abns@hall-${{POD_IP}}-{port}"
    return f"""\
global
    # On the street and in the hall.
    maxconn {2 * _CONNECTIONS}
    # Where it may open fewer files than that takes, it still serves.
    no strict-limits
    nbthread 1
    noreuseport
    lua-load {TRIAL_FILE}
    # Long answers in half as many pieces: that, and the shorter key first, makes up for the second stage.
    tune.bufsize 32768
    tune.ssl.cachesize {_CONNECTIONS}
    ssl-default-bind-options ssl-min-ver TLSv1.2
    ssl-default-bind-ciphers ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20

defaults
    mode tcp
    timeout connect 3s
    timeout client {_IDLE}
    timeout server {_IDLE}
    timeout check 3s
    retries 0

frontend street
    bind "${{POD_IP}}:{door_port(port)}"
    maxconn {_CONNECTIONS}
    option clitcpka
    # Long answers pass here without being copied.
    option splice-auto
    # What is known to be down need not be tried.
    tcp-request connection reject if {{ nbsrv(watched) eq 0 }}
    tcp-request inspect-delay {_HELLO_S}s
    # Tried as late as can be, when the handshake is about to begin: what happens after that nobody can know.
    tcp-request content lua.try_replica if {{ req.len gt 0 }}
    tcp-request content reject unless {{ req.len gt 0 }}
    default_backend hall

backend hall
    option splice-auto
    server hall "{hall}"

frontend hall
    bind "{hall}" ssl crt {CERTIFICATE_FILE}
    default_backend replica

# Whoever is in the hall was let in because the replica is there, whatever was found by others a moment before.
backend replica
    server replica "${{POD_IP}}:{port}"

# Only looked at. One connection that fails is enough to take it for gone, and it is looked for again at once.
backend watched
    server replica "${{POD_IP}}:{port}" check inter {_LOOKS_WHILE_UP_S}s downinter {_LOOKS_WHILE_DOWN_MS}ms fastinter {_LOOKS_WHILE_DOWN_MS}ms fall 1 rise 1
"""


def _trial(port: int) -> str:
    return f"""\
local address = os.getenv("POD_IP")

core.register_action("try_replica", {{"tcp-req"}}, function()
    local trial = core.tcp()
    trial:settimeout({_TRIAL_S})
    local taken = trial:connect(address, {port})
    trial:close()
    if taken then
        return act.CONTINUE
    end
    -- Until it is looked for the next time, so that others need not wait for a trial of their own.
    core.backends["watched"].servers["replica"]:check_force_down()
    return act.DENY
end)
"""


def has_door(pod: Mapping[str, Any]) -> bool:
    return door_of(pod) is not None


def door_of(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """One that was started before there were doors has none, and serves without until it ends."""
    beside = pod.get("spec", {}).get("initContainers") or ()
    return next((one for one in beside if one["name"] == DOOR), None)


def encoded(data: Mapping[str, str]) -> dict[str, str]:
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}

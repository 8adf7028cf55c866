"""What each reason means and what to do about it, for whoever looks it up. Pure.

A container carries a sentence of its own that says what was seen (`verdict.py`); this is what holds for all of them. The
handbook's page of reasons is printed from here.
"""

from dataclasses import dataclass

from moorage.containers.states import Reason


@dataclass(frozen=True)
class Words:
    meaning: str
    fix: str


WORDS: dict[Reason, Words] = {
    Reason.IMAGE_NOT_FOUND: Words(
        "The registry has no image with this name and tag, or does not show it to these credentials.",
        "Check the name, the tag and the provider with `moor preflight --image IMAGE`. A private image needs a user name and a password or token.",
    ),
    Reason.REGISTRY_AUTH_FAILED: Words(
        "The registry refused the user name or the password.",
        "Set the credentials again. Tokens expire, and some registries want a token instead of the password.",
    ),
    Reason.REGISTRY_UNREACHABLE: Words(
        "The registry did not answer, or its name has no address.",
        "Check the host in the image's name. If the registry is up, try again in a minute. The operator must allow a registry at a private address (`allowed_registries`).",
    ),
    Reason.IMAGE_ARCHITECTURE_MISMATCH: Words(
        "The image is not built for the processors of this installation's machines.",
        "Build the image for the platform that the message names, for example with `docker build --platform linux/amd64`.",
    ),
    Reason.IMAGE_TOO_LARGE: Words(
        "The image's layers are larger than the installation allows.",
        "Leave weights out of the image and keep them in a cache, or ask the operator to raise `max_image_bytes`.",
    ),
    Reason.PULL_TIMEOUT: Words(
        "The image was not pulled within the time allowed.",
        "Make the image smaller, or use a registry nearer by. The operator can raise `pull_timeout_s`.",
    ),
    Reason.GPU_NOT_DETECTED: Words(
        "The machine did not give the container its GPU.",
        "Start the container again. If it happens again, the operator runs `moor doctor host` on the machine.",
    ),
    Reason.GPU_DRIVER_MISMATCH: Words(
        "The image needs a newer NVIDIA driver than the machine has.",
        "Use an image for an older CUDA version, or ask the operator for a newer driver.",
    ),
    Reason.GPU_LOST: Words(
        "The GPU failed while the replica ran on it.",
        "Nothing to do: the replica starts on another GPU, and the paid hour waits for it. The operator finds the cause with `moor doctor host`.",
    ),
    Reason.GPU_BUSY: Words(
        "Another program on the machine uses the GPU.",
        "Wait: Moorage tries again by itself. The operator can find the program with `nvidia-smi` and end it.",
    ),
    Reason.GPU_OUT_OF_MEMORY: Words(
        "The process ended because its GPU's memory was too small.",
        "Use a smaller model, a shorter context or smaller batches, or choose an instance type with more GPU memory.",
    ),
    Reason.NO_CAPACITY: Words(
        "No machine has room for a replica of this instance type now, or the machine that has the image is full.",
        "Wait: it starts as soon as there is room. Or choose another instance type; `moor instance-types` shows what is free.",
    ),
    Reason.AWAITING_APPROVAL: Words(
        "The container asks for more replicas than the project may have, and the operator has not decided yet.",
        "Wait for the operator, or ask for fewer replicas. `moor replica-limit list` shows the request.",
    ),
    Reason.REPLICA_LIMIT_REFUSED: Words(
        "The operator refused the replicas that the container asks for.",
        "Ask for fewer replicas, then start it again. The message has the operator's answer.",
    ),
    Reason.START_LIMIT: Words(
        "The container failed to start too often within an hour, or the organization used up its daily allowance of failed starts.",
        "Fix what the logs show. The container may start again at the time in the message.",
    ),
    Reason.INSUFFICIENT_CREDIT: Words(
        "The credit does not cover one hour of every replica that is needed.",
        "Top up under *Billing* or with `moor billing top-up`. It then starts by itself.",
    ),
    Reason.START_COMMAND_NOT_FOUND: Words(
        "The container's program is not in the image, or cannot run on this machine.",
        "Check the start command and the first line of the script that it names. Without a start command, check the image's ENTRYPOINT and CMD.",
    ),
    Reason.EXITED: Words(
        "The process ended. A container must keep serving.",
        "Read the last log lines with `moor logs NAME` and the exit code in the message. Exit code 137 usually means too little memory.",
    ),
    Reason.OUT_OF_MEMORY: Words(
        "The kernel ended the process because it used more memory than the instance type has.",
        "Choose an instance type with more memory; `moor fix NAME` takes the next larger one. Or make the process use less: fewer workers, smaller batches.",
    ),
    Reason.PIDS_LIMIT: Words(
        "The container has reached its limit of processes and threads.",
        "Start fewer workers or threads. [Limits](limits.md) has the number.",
    ),
    Reason.DISK_FULL: Words(
        "The container wrote more than its disk or its cache holds, or the machine's disk was almost full.",
        "Write less inside the container, choose an instance type with a larger disk, or give it a larger cache.",
    ),
    Reason.MISSING_CAPABILITY: Words(
        "The process tried something that needs special rights, such as changing the user or the owner of files. Containers have no special rights.",
        "Build the image so that it runs as one user from its first instruction and already owns its files.",
    ),
    Reason.PORT_NOT_LISTENING: Words(
        "Nothing listens on the container's port.",
        "If the process is still loading, give it more time (`health_check.timeout_s`). Otherwise make it listen on 0.0.0.0 and the port in `PORT`.",
    ),
    Reason.LISTENS_ON_LOOPBACK_ONLY: Words(
        "The server listens on 127.0.0.1, which nothing outside its container can reach.",
        "Bind to 0.0.0.0 and to the port in `PORT`. Most servers have options for it: `--host 0.0.0.0 --port $PORT`.",
    ),
    Reason.LISTENS_ON_OTHER_PORT: Words(
        "The server listens on a port other than the container's.",
        "Set the container's port to the one in the message; `moor fix NAME` does this. Or make the server listen on the port in `PORT`.",
    ),
    Reason.HEALTH_CHECK_STATUS: Words(
        "The health path answered with a status other than 200.",
        "Fix the health path or the server. Many servers answer 503 while a model loads; if so, raise `health_check.timeout_s`.",
    ),
    Reason.HEALTH_CHECK_TIMEOUT: Words(
        "The health path did not answer within five seconds.",
        "Find out what the server is doing: it may be loading, overloaded or stuck. Answer health checks in a separate thread.",
    ),
    Reason.NODE_LOST: Words(
        "The machine, or the replica on it, is gone.",
        "Nothing to do: another replica takes its place, in the hour that is already paid.",
    ),
    Reason.MACHINE_RECLAIMED: Words(
        "The owner of the replica's community machine wanted it back or no longer lends it.",
        "Nothing to do: another machine runs a new replica. For a container that must not move, choose `infrastructure` `operator`.",
    ),
    Reason.PORT_TAKEN: Words(
        "Another program on the machine uses the replica's port.",
        "Nothing to do: the replica starts again with another port. The operator should keep other programs out of `replica_ports`.",
    ),
    Reason.STOPPED_BY_USER: Words(
        "Somebody stopped it. `moor events NAME` says who.",
        "Start it again when you need it.",
    ),
    Reason.STOPPED_NO_CREDIT: Words(
        "The credit ran out.",
        "Top up, then start it again. An automatic top-up or an alert prevents this.",
    ),
    Reason.SPENDING_LIMIT: Words(
        "The monthly spending limit of the organization or the project is reached.",
        "Raise the limit under *Billing* or with `moor billing limits`, then start the container again. Or start it next month.",
    ),
    Reason.SUSPENDED: Words(
        "The operator suspended the organization.",
        "Ask the operator.",
    ),
    Reason.ENGINE_ERROR: Words(
        "The container engine failed or does not answer.",
        "Wait: Moorage tries again by itself. The operator can check `moor status` and the engine's log.",
    ),
    Reason.ERRORS_ABOVE_BOUND: Words(
        "The new version answered with more errors than the old one, so Moorage went back.",
        "Read the logs of the new version, fix it, and update again. `moor versions NAME` has the figures.",
    ),
    Reason.SLOWER_THAN_BEFORE: Words(
        "The canary answered clearly slower than the other version, so Moorage dropped it.",
        "Find out why with `moor requests NAME`, fix it, and start the canary again.",
    ),
    Reason.ROLLED_BACK: Words(
        "Somebody went back to an earlier version during this update.",
        "Nothing to do. Update again when the new version is ready.",
    ),
}

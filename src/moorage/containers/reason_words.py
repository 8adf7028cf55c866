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
        "Check the host in the image's name. If the registry is up, try again in a minute. A registry at a private address has to be allowed by the operator (`allowed_registries`).",
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
        "The machine did not hand its GPU to the container.",
        "Start the container again. If it happens again, the operator runs `moor doctor host` on the machine.",
    ),
    Reason.GPU_DRIVER_MISMATCH: Words(
        "The image needs a newer NVIDIA driver than the machine has.",
        "Use an image for an older CUDA version, or ask the operator for a newer driver.",
    ),
    Reason.GPU_LOST: Words(
        "The GPU failed while the replica ran on it.",
        "Nothing: the replica starts on another GPU, and the paid hour waits for it. The operator finds the cause with `moor doctor host`.",
    ),
    Reason.GPU_BUSY: Words(
        "Another program on the machine uses the GPU.",
        "Wait: Moorage tries again by itself. The operator finds the program with `nvidia-smi` and ends it.",
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
        "It asks for more replicas than the project may have, and the operator has not decided yet.",
        "Wait for the operator, or ask for fewer replicas. `moor replica-limit list` shows the request.",
    ),
    Reason.REPLICA_LIMIT_REFUSED: Words(
        "The operator refused the replicas that it asks for.",
        "Ask for fewer replicas, then start it again. The message has the operator's answer.",
    ),
    Reason.START_LIMIT: Words(
        "It failed to start too often within an hour, or the organization used up its daily allowance of starts that came to nothing.",
        "Fix what the logs say. It may start again at the time that the message names.",
    ),
    Reason.INSUFFICIENT_CREDIT: Words(
        "The credit does not cover one hour of every replica that is needed.",
        "Top up under *Billing* or with `moor billing top-up`. It then starts by itself.",
    ),
    Reason.START_COMMAND_NOT_FOUND: Words(
        "The program that the container should run is not in the image, or cannot be run on this machine.",
        "Check the start command, and the first line of the script that it names. Without a start command, check the image's ENTRYPOINT and CMD.",
    ),
    Reason.EXITED: Words(
        "The process ended. A container must keep serving.",
        "Read the last log lines with `moor logs NAME` and the exit code in the message. Exit code 137 is most often too little memory.",
    ),
    Reason.OUT_OF_MEMORY: Words(
        "The kernel ended the process because it used more memory than the instance type has.",
        "Choose an instance type with more memory; `moor fix NAME` takes the next larger one. Or make the process use less: fewer workers, smaller batches.",
    ),
    Reason.PIDS_LIMIT: Words(
        "The container cannot start another process or thread: it has as many as it may.",
        "Start fewer workers or threads. [Limits](limits.md) has the number.",
    ),
    Reason.DISK_FULL: Words(
        "The container wrote more than its disk or its cache holds, or the machine's disk was almost full.",
        "Write less inside the container, choose an instance type with a larger disk, or give it a larger cache.",
    ),
    Reason.MISSING_CAPABILITY: Words(
        "The process tried something that needs special rights, such as changing the owner of files or the user. Containers have none.",
        "Build the image so that it runs as one user from its first instruction and owns its files already.",
    ),
    Reason.PORT_NOT_LISTENING: Words(
        "Nothing listens on the container's port.",
        "Give the process more time (`health_check.timeout_s`) if it is still loading. Otherwise make it listen on the port in `PORT`, on 0.0.0.0.",
    ),
    Reason.LISTENS_ON_LOOPBACK_ONLY: Words(
        "The server listens on 127.0.0.1, which nothing outside its container can reach.",
        "Bind to 0.0.0.0. Most servers have an option for it: `--host 0.0.0.0`.",
    ),
    Reason.LISTENS_ON_OTHER_PORT: Words(
        "The server listens, but on another port than the container's.",
        "Set the container's port to the one that the message names; `moor fix NAME` does it. Or make the server listen on the port in `PORT`.",
    ),
    Reason.HEALTH_CHECK_STATUS: Words(
        "The health path answered with another status than 200.",
        "Fix the health path, or the server. While a model loads, many servers answer 503: then raise `health_check.timeout_s`.",
    ),
    Reason.HEALTH_CHECK_TIMEOUT: Words(
        "The health path did not answer within five seconds.",
        "Find out what the server does meanwhile: it may be loading, overloaded or stuck. Answer health checks from a thread of their own.",
    ),
    Reason.NODE_LOST: Words(
        "The machine, or the replica on it, is gone.",
        "Nothing: another replica takes its place, in the hour that is already paid.",
    ),
    Reason.MACHINE_RECLAIMED: Words(
        "The owner of the community machine that the replica ran on wanted it back, or no longer lends it.",
        "Nothing: it is replaced elsewhere. A container that must not move chooses `infrastructure` `operator`.",
    ),
    Reason.PORT_TAKEN: Words(
        "Another program on the machine uses the port that the replica was given.",
        "Nothing: it starts again with another port. The operator keeps other programs out of `replica_ports`.",
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
        "Raise the limit under *Billing* or with `moor billing limits`, then start it again. It also ends with the month.",
    ),
    Reason.SUSPENDED: Words(
        "The operator suspended the organization.",
        "Ask the operator.",
    ),
    Reason.ENGINE_ERROR: Words(
        "The container engine failed or does not answer.",
        "Wait: Moorage tries again by itself. The operator looks at `moor status` and at the engine's log.",
    ),
    Reason.ERRORS_ABOVE_BOUND: Words(
        "A new version answered more errors than the one beside it, and went back by itself.",
        "Read the logs of the new version, fix it, and update again. `moor versions NAME` has the figures.",
    ),
    Reason.SLOWER_THAN_BEFORE: Words(
        "A canary answered clearly slower than the version beside it, and was dropped.",
        "Find out why with `moor requests NAME`, fix it, and start the canary again.",
    ),
    Reason.ROLLED_BACK: Words(
        "Somebody went back to an earlier version while this one was under way.",
        "Nothing. Update again when the new version is ready.",
    ),
}

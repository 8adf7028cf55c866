"""What becomes of each thing that Docker can be told of a container, in a sentence. Pure.

`refused` is what would make something else run if it were left out. The rest is said and left out.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    sentence: str
    refused: bool = False


def _refused(sentence: str) -> Meaning:
    return Meaning(sentence, refused=True)


VOLUMES = _refused(
    "A container here gets no file or folder of a machine. Put files into the image; `--cache GIB` keeps weights between starts."
)
SECRET_FILES = _refused(
    "No files are put into a container. Give values as environment variables, which are sealed, or put files into the image."
)
NETWORK = _refused("Each container has a network of its own. It reaches others at their endpoint URLs.")
NAMES = _refused("Names are those of the public DNS. Other containers are reached at their endpoint URLs.")
RIGHTS = _refused(
    "Every container runs under one security profile, without the machine's devices, namespaces and further rights."
)
DEVICES = _refused("The only devices that a container gets are GPUs, those of its instance type: `--gpus N`.")
ENGINE = _refused("No container reaches the engine that runs it.")
RUNTIME = _refused("Moorage chooses the runtime. GPUs come with the instance type: `--gpus N`.")
USER = _refused("It runs as the image's USER. Set that in the image.")
WORKING_DIRECTORY = _refused("It starts in the image's WORKDIR. Set that in the image.")
READ_ONLY = _refused("What the image holds is writable, and what is written there goes with the replica.")
STOP_SIGNAL = _refused("It is stopped with the image's STOPSIGNAL. Set that in the image.")
INPUT = _refused("Nobody can type into it: it has no standard input.")
HOOKS = _refused("Nothing but the container's own program is run. Put this into its start command.")
OTHER_FILES = _refused(
    "Only this file is read. Write the service out first: `docker compose config > whole.yaml`."
)
ALL_MACHINES = _refused("A container runs with a number of replicas: `--min N --max N`.")
UNKNOWN = _refused("Moorage has no such setting.")

TERMINAL = Meaning("It has no terminal. `moor logs -f` follows what it prints.")
PROFILE = Meaning("Every container is started so anyway.")
CAPABILITIES = Meaning("Every container has lost all of them anyway.")
RESTARTS = Meaning("Moorage replaces what ends, until you stop it with `moor stop`.")
REMOVAL = Meaning("It stays, and its hours are paid, until `moor delete`.")
LABELS = Meaning("Labels are not kept.")
LOGS = Meaning("`moor logs` has what it prints.")
PULLS = Meaning("Each deployment asks the registry, and keeps to the digest that it found.")
PLATFORM = Meaning("It is the image for the machine's own architecture.")
SHARED_MEMORY = Meaning("Shared memory may take half of the instance type's memory.")
PROCESS_LIMITS = Meaning("Limits of processes and files are the same for every container.")
SHARES = Meaning("How a machine is shared follows from the instance types.")
INIT = Meaning("No process is added before it: its program has process id 1.")
STOPPING = Meaning("How long requests may take to finish at a stop is the operator's setting.")
CHECK_PACE = Meaning("Moorage checks at a pace of its own.")
CHECK = Meaning(
    "A check in the image is not run: Moorage asks its port, or the path that --health-path names."
)
ALL_PORTS = Meaning("It is reached at its endpoint, which leads to one port: `-p PORT`.")
NETWORKS = Meaning("Its only neighbours are those whose endpoint URLs it knows.")
OTHERS = Meaning("Other services are not deployed with it. It reaches them at their endpoint URLs.")
BUILD = Meaning("Nothing is built: the image has to be in its registry.")
UPDATES = Meaning("`moor update` has Moorage's ways of updating.")
PLACEMENT = Meaning("Moorage chooses the machine.")
DISKS = Meaning("Its disk is as large as the instance type says.")
NO_MEANING = Meaning("It has no meaning here.")

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
    "Containers cannot mount files or folders of a machine. Put files into the image. `--cache GIB` keeps weights between starts."
)
SECRET_FILES = _refused(
    "Moorage puts no files into containers. Give values as environment variables, which are sealed, or put files into the image."
)
NETWORK = _refused("Each container has its own network. It reaches others at their endpoint URLs.")
NAMES = _refused("Containers use the public DNS. They reach others at their endpoint URLs.")
RIGHTS = _refused(
    "All containers run under one security profile, without the machine's devices or namespaces and without extra rights."
)
DEVICES = _refused("The only devices that a container gets are its instance type's GPUs: `--gpus N`.")
ENGINE = _refused("Containers cannot reach the engine that runs them.")
RUNTIME = _refused("Moorage chooses the runtime. GPUs come with the instance type: `--gpus N`.")
USER = _refused("It runs as the image's USER. Set that in the image.")
WORKING_DIRECTORY = _refused("It starts in the image's WORKDIR. Set that in the image.")
READ_ONLY = _refused("The image's files are writable. Changes are lost when the replica ends.")
STOP_SIGNAL = _refused("It is stopped with the image's STOPSIGNAL. Set that in the image.")
INPUT = _refused("It has no standard input, so nobody can type into it.")
HOOKS = _refused("Moorage runs only the container's own program. Put this into its start command.")
OTHER_FILES = _refused(
    "Moorage reads only this file. Merge the files first: `docker compose config > whole.yaml`."
)
ALL_MACHINES = _refused("Set the number of replicas with `--min N --max N`.")
UNKNOWN = _refused("Moorage has no such setting.")

TERMINAL = Meaning("It has no terminal. `moor logs -f` follows its output.")
PROFILE = Meaning("Every container is started like this anyway.")
CAPABILITIES = Meaning("Every container runs without any of them anyway.")
RESTARTS = Meaning("Moorage replaces a replica that ends until you run `moor stop`.")
REMOVAL = Meaning("It stays, and you pay its hours, until `moor delete`.")
LABELS = Meaning("Moorage does not keep labels.")
LOGS = Meaning("`moor logs` shows its output.")
PULLS = Meaning("Each deployment asks the registry and runs the digest that it found.")
PLATFORM = Meaning("Moorage takes the image for the machine's own architecture.")
SHARED_MEMORY = Meaning("Shared memory may use half of the instance type's memory.")
PROCESS_LIMITS = Meaning("Limits of processes and files are the same for every container.")
SHARES = Meaning("The instance types decide how a machine is shared.")
INIT = Meaning("Moorage adds no init process. Its program has process id 1.")
STOPPING = Meaning("The operator sets how long requests may take to finish at a stop.")
CHECK_PACE = Meaning("Moorage checks at its own pace.")
CHECK = Meaning(
    "Moorage does not run the image's own check. It checks the port, or the path that --health-path names."
)
ALL_PORTS = Meaning("Clients reach it at its endpoint, which leads to one port: `-p PORT`.")
NETWORKS = Meaning("It reaches other containers only at their endpoint URLs.")
OTHERS = Meaning("Moorage does not deploy other services with it. It reaches them at their endpoint URLs.")
BUILD = Meaning("Moorage builds nothing. The image must be in its registry.")
UPDATES = Meaning("Update it with `moor update`.")
PLACEMENT = Meaning("Moorage chooses the machine.")
DISKS = Meaning("The instance type decides how large its disk is.")
NO_MEANING = Meaning("It has no meaning here.")

"""Why a replica's command did not start, from the words of the runtime below the engine (runc's, gVisor's, and NVIDIA's) to a reason and
a sentence that helps. Pure; the same for every engine, because the runtime is."""

from moorage.kit.errors import StartError

_ABOUT_COMMAND = ("exec:", "error finding executable", "creating process: failed to load")
_COMMAND_MISSING = ("executable file not found", "no such file or directory", "not a directory")
_COMMAND_REFUSED = ("permission denied", "is a directory")
_COMMAND_WRONG_FORMAT = ("exec format error",)
_NO_COMMAND = ("no command specified",)
_GPU_REQUIREMENT = ("unsatisfied condition",)
_GPU = (
    "could not select device driver",
    "nvidia-container-cli",
    "nvidia-container-runtime",
    "unresolvable cdi devices",
    "cdi device injection failed",
)


def start_error(message: str, command: str) -> StartError | None:
    """None where it is not about the image or its command. `command` is the program alone, as it is shown: its arguments
    may hold a secret."""
    text = message.lower()
    if any(phrase in text for phrase in _NO_COMMAND):
        return _of_command("The image names no command to run. Set a start command.")
    if any(phrase in text for phrase in _COMMAND_WRONG_FORMAT):
        return _of_command(
            f"The start command {command} cannot run on this machine: it is built for another processor, or "
            "it is a script without a #! line."
        )
    if any(phrase in text for phrase in _GPU_REQUIREMENT):
        return StartError(
            "The machine's NVIDIA driver is too old for this image. Use an image built for an older CUDA, "
            "or restart on another machine.",
            code="gpu_driver_mismatch",
        )
    # Only beside these do the phrases below speak of the command, and not of a mount or a socket.
    about_command = any(phrase in text for phrase in _ABOUT_COMMAND)
    if about_command and any(phrase in text for phrase in _COMMAND_MISSING):
        return _of_command(
            f"The start command {command} was not found in the image. Check its spelling, or give its full "
            "path in the image."
        )
    if about_command and any(phrase in text for phrase in _COMMAND_REFUSED):
        return _of_command(
            f"The start command {command} is not executable. Make the file executable (chmod +x) in the image."
        )
    return None


def is_about_gpus(message: str) -> bool:
    """Whether the engine had no GPU to hand over. A driver that is too old is another matter."""
    text = message.lower()
    return any(phrase in text for phrase in _GPU) and not any(phrase in text for phrase in _GPU_REQUIREMENT)


def _of_command(message: str) -> StartError:
    return StartError(message, code="start_command_not_found")

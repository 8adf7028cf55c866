"""What another tool's file or command line asks for, before Moorage is asked anything. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from moorage_cli.client import Record
from moorage_cli.errors import CliError, ExitCode
from moorage_cli.other_tools.meanings import Meaning
from moorage_cli.other_tools.sizes import Sizes


@dataclass(frozen=True)
class Program:
    """What is started, as Docker puts it together. None is the image's own."""

    entrypoint: tuple[str, ...] | None = None
    arguments: tuple[str, ...] | None = None

    @property
    def needs_image(self) -> bool:
        """Only other arguments for what the image starts."""
        return self.entrypoint is None and self.arguments is not None

    def command(self, entrypoint_of_image: Sequence[str] = ()) -> list[str] | None:
        if self.entrypoint is None and self.arguments is None:
            return None
        entrypoint = entrypoint_of_image if self.entrypoint is None else self.entrypoint
        return [*entrypoint, *(self.arguments or ())]


@dataclass
class Findings:
    """What is said line by line, and what stands against it."""

    notes: list[tuple[str, str]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)

    def note(self, what: str, sentence: str) -> None:
        if sentence:
            self.notes.append((what, sentence))

    def add(self, what: str, meaning: Meaning) -> None:
        (self.refusals if meaning.refused else self.notes).append((what, meaning.sentence))

    def check(self, subject: str, hint: str) -> None:
        if self.refusals:
            message = f"{subject} would not run here unchanged:"
            raise CliError(message, ExitCode.USAGE, code="not_taken_over", hint=hint, fields=self.refusals)


@dataclass(frozen=True)
class Asked:
    subject: str
    """Where it stands, for messages."""
    body: Record
    """In the words of the API."""
    program: Program = field(default_factory=Program)
    sizes: Sizes = field(default_factory=Sizes)
    notes: tuple[tuple[str, str], ...] = ()

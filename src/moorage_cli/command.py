"""How a function becomes a command of `moor`.

Every command takes `--json`, `--url` and `--project`, before its name or after it. `@command(app)` adds them to the
function's own parameters, hands it a `Session` made from them, and turns a `CliError` into its message and exit code.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from moorage_cli import completion
from moorage_cli.errors import CliError
from moorage_cli.output import Output
from moorage_cli.session import GlobalOptions, Session

FunctionT = TypeVar("FunctionT", bound=Callable[..., None])

JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print JSON; errors go to stderr as JSON.", show_default=False),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Address of Moorage. Default: MOORAGE_URL, else the address of your login.",
    ),
]
ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project",
        metavar="NAME|ID",
        help="The project. Default: MOORAGE_PROJECT, else your only one.",
        autocompletion=completion.projects,
    ),
]
ContainerArgument = Annotated[
    str,
    typer.Argument(
        metavar="CONTAINER", help="A container's name or id.", autocompletion=completion.containers
    ),
]


def command(app: typer.Typer, name: str | None = None, **settings: Any) -> Callable[[FunctionT], FunctionT]:
    """Register a function whose first parameter is the `Session`."""

    def register(function: FunctionT) -> FunctionT:
        @functools.wraps(function)
        def run(
            context: typer.Context,
            json_output: bool,
            url: str | None,
            project: str | None,
            **arguments: Any,
        ) -> None:
            outer = context.obj if isinstance(context.obj, GlobalOptions) else GlobalOptions()
            options = GlobalOptions(json_output or outer.as_json, url or outer.url, project or outer.project)
            _run(function, options, arguments)

        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [one.replace(kind=keyword) for one in inspect.signature(function).parameters.values()][1:]
        parameters = [_parameter("context", typer.Context), *own, *_common_parameters()]
        # `wraps` points to the function; Typer must see the parameters of `run` instead.
        del run.__wrapped__
        run.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name, **settings)(run)
        return function

    return register


def _run(function: Callable[..., None], options: GlobalOptions, arguments: dict[str, Any]) -> None:
    output = Output(options.as_json)
    session = Session(options, output)
    try:
        function(session, **arguments)
    except CliError as exc:
        output.error(exc)
        raise typer.Exit(exc.exit_code) from exc
    finally:
        session.close()


def _common_parameters() -> list[inspect.Parameter]:
    return [
        _parameter("json_output", JsonOption, default=False),
        _parameter("url", UrlOption, default=None),
        _parameter("project", ProjectOption, default=None),
    ]


def _parameter(name: str, annotation: Any, **default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, **default)

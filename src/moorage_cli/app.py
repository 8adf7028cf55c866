"""The command line itself. `moorage.entrypoints.moor` adds the commands that need the machine, such as `up`."""

import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from moorage_cli.command import JsonOption, ProjectOption, UrlOption
from moorage_cli.commands import (
    account,
    billing,
    billing_cards,
    billing_documents,
    billing_limits,
    caches,
    canary,
    capsules,
    chat,
    containers,
    deploy,
    doctor,
    earnings,
    editing,
    instance_types,
    keys,
    logs,
    machines,
    members,
    nodes,
    opening,
    operator,
    operator_payouts,
    operator_types,
    organizations,
    preflight,
    projects,
    replica_limits,
    requests,
    run,
    scaling,
    sessions,
    sleep,
    status,
    templates,
    top,
    versions,
    webhooks,
)
from moorage_cli.errors import ExitCode, UsageError, exit_codes_text
from moorage_cli.session import GlobalOptions


class MoorGroup(TyperGroup):
    """With `--json`, a mistyped command or option is reported as JSON too."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        # Typer draws its help and mistakes in colour on some build servers, where nobody sees a terminal.
        if os.environ.get("NO_COLOR") or not (sys.stdout.isatty() and sys.stderr.isatty()):
            os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"
        rest = (prog_name, complete_var)
        if not standalone_mode or "--json" not in (sys.argv[1:] if args is None else args):
            return super().main(args, *rest, standalone_mode, windows_expand_args, **extra)
        try:
            exit_code = super().main(args, *rest, False, windows_expand_args, **extra)
        except typer.TyperException as exc:
            print(json.dumps(UsageError(exc.format_message()).to_json()), file=sys.stderr)
            sys.exit(ExitCode.USAGE)
        except typer.Abort:
            sys.exit(ExitCode.FAILED)
        sys.exit(exit_code if isinstance(exit_code, int) else ExitCode.OK)


app = typer.Typer(
    name="moor",
    cls=MoorGroup,
    help="Moorage: deploy containers that serve AI inference.",
    epilog=exit_codes_text(),
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    # A traceback with local variables could show a token.
    pretty_exceptions_show_locals=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"moor {version('moorage')}")
        raise typer.Exit()


@app.callback()
def root(
    context: typer.Context,
    json_output: JsonOption = False,
    url: UrlOption = None,
    project: ProjectOption = None,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    context.obj = GlobalOptions(json_output, url, project)


for part in (
    deploy,
    run,
    templates,
    preflight,
    doctor,
    containers,
    capsules,
    editing,
    canary,
    versions,
    sleep,
    logs,
    chat,
    requests,
    scaling,
    account,
    status,
    top,
    opening,
    instance_types,
    nodes,
):
    part.register(app)
operator.app.add_typer(operator_types.app, name="instance-type")
operator.app.add_typer(operator_payouts.app, name="payouts")
operator.app.add_typer(replica_limits.operator_app, name="replica-limit")
app.add_typer(replica_limits.app, name="replica-limit")
app.add_typer(canary.app, name="canary")
app.add_typer(sessions.app, name="sessions")
app.add_typer(organizations.app, name="org")
app.add_typer(members.app, name="members")
app.add_typer(scaling.app, name="autoscaling")
app.add_typer(projects.app, name="project")
app.add_typer(keys.app, name="keys")
billing_limits.register(billing.app)
billing_cards.register(billing.app)
billing_documents.register(billing.app)
app.add_typer(billing.app, name="billing")
app.add_typer(earnings.app, name="earnings")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(caches.app, name="caches")
app.add_typer(machines.app, name="machines")
app.add_typer(operator.app, name="operator")

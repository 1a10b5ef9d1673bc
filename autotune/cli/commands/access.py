"""``autotune token`` and ``autotune team``: who may use a shared service, and how much."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.access import Role
from autotune.errors import UsageError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    token = typer.Typer(no_args_is_help=True, help="Access tokens of a shared service; for administrators.")
    token.command("create")(create)
    token.command("list")(list_tokens)
    token.command("revoke")(revoke)
    app.add_typer(token, name="token")
    team = typer.Typer(no_args_is_help=True, help="Quotas and shares of teams; for administrators.")
    team.command("set")(set_team)
    team.command("list")(list_teams)
    app.add_typer(team, name="team")


def create(
    name: Annotated[str, typer.Argument(help="Whose token it is.")],
    role: Annotated[Role, typer.Option(help="What it is for.")] = Role.VIEWER,
    team: Annotated[str, typer.Option(help="Whose jobs it may act on besides the own ones.")] = "",
    expires: Annotated[str | None, typer.Option(help="A duration, for example 90d; without it never.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and show it, this once. From the first one on, the service asks everybody for one."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json, say
    from autotune.spec.units import parse_duration

    expires_s = None if expires is None else parse_duration(expires)
    if expires is not None and not expires_s:
        raise UsageError(f"--expires must be a duration above 0 with its unit, got {expires!r}.", hint="Example: 90d")
    with connect() as connection:
        issued = connection.client.create_token(name, role=str(role), team=team, expires_s=expires_s)
    if as_json:
        print_json(issued)
        return
    data(issued.token)
    say(f"this is the token {issued.about.id} of {name} ({role}); it is not shown again")
    say("use it with: export AUTOTUNE_TOKEN=...   take it back with: autotune token revoke " + issued.about.id)


def list_tokens(as_json: AsJson = False) -> None:
    """List all tokens, without their secrets."""
    from autotune.cli.connect import connect
    from autotune.cli.output import moment, print_json, say, table

    with connect() as connection:
        found = connection.client.tokens()
    if as_json:
        print_json({"tokens": found})
        return
    rows = [
        [
            one.id,
            one.name,
            one.role,
            one.team or "-",
            "revoked" if one.revoked_at else "lives" if one.lives else "expired",
            moment(one.created_at),
            moment(one.expires_at) if one.expires_at else "never",
            moment(one.used_at) if one.used_at else "never",
        ]
        for one in found
    ]
    table(["token", "name", "role", "team", "state", "made", "expires", "used"], rows)
    if not found:
        say("no token yet: the service answers on loopback names only, and to everybody there")


def revoke(token: Annotated[str, typer.Argument(help="The token's id, as listed.")], as_json: AsJson = False) -> None:
    """Take a token back; it opens nothing from now on."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json

    with connect() as connection:
        view = connection.client.revoke_token(token)
    if as_json:
        print_json(view)
    else:
        data(f"token {view.id} of {view.name} is revoked")


def set_team(
    name: Annotated[str, typer.Argument(help="The team's name, as tokens have it.")],
    gpus: Annotated[float | None, typer.Option(min=0, help="GPUs at a time; without it no limit.")] = None,
    gpu_hours: Annotated[
        float | None, typer.Option(min=0, help="GPU-hours a calendar month; without it no limit.")
    ] = None,
    share: Annotated[float, typer.Option(help="Weight where several teams wait for the same GPUs.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Set what a team may use; what is left out has no limit."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json
    from autotune.views import TeamView

    with connect() as connection:
        team = TeamView(name=name, parallel_gpus=gpus, gpu_hours_a_month=gpu_hours, share=share)
        view = connection.client.put_team(team)
    if as_json:
        print_json(view)
    else:
        data(
            f"team {view.name}: {_limit(view.parallel_gpus)} GPUs at a time, "
            f"{_limit(view.gpu_hours_a_month)} GPU-hours a month, share {view.share:g}"
        )


def list_teams(as_json: AsJson = False) -> None:
    """List the teams that have a quota or a share of their own."""
    from autotune.cli.connect import connect
    from autotune.cli.output import print_json, say, table

    with connect() as connection:
        found = connection.client.teams()
    if as_json:
        print_json({"teams": found})
        return
    rows = [[t.name, _limit(t.parallel_gpus), _limit(t.gpu_hours_a_month), f"{t.share:g}"] for t in found]
    table(["team", "GPUs at a time", "GPU-hours a month", "share"], rows)
    if not found:
        say("no team has a quota; set one with: autotune team set NAME --gpus 16")


def _limit(value: float | None) -> str:
    return "any number of" if value is None else f"{value:g}"

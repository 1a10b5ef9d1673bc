"""Turns what a command raises into lines on stderr and an exit code; a traceback only when it was asked for."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from autotune.cli.output import print_error, say
from autotune.errors import AutotuneError

INTERRUPTED = 130


def debug_wanted() -> bool:
    """Whether ``--debug`` or ``AUTOTUNE_DEBUG`` asked for tracebacks."""
    return os.environ.get("AUTOTUNE_DEBUG", "").lower() not in ("", "0", "false", "no")


class GuardedGroup(TyperGroup):
    """A group of commands under one guard."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - the signature of the vendored click
        """Runs a command and translates its end."""
        return guarded(lambda: super(GuardedGroup, self).invoke(ctx))


def guarded(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the work returns
    """Runs ``work``; our errors, interruptions and defects end the process with their own exit codes.

    Raises:
        typer.Exit: With the exit code.
    """
    try:
        return work()
    except (typer.Exit, typer.Abort, typer.TyperException):
        raise
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output went away; nothing is left to say to it, not even at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except AutotuneError as error:
        if debug_wanted():
            traceback.print_exc(file=sys.stderr)
        print_error(error)
        raise typer.Exit(error.exit_code) from None
    except Exception as error:  # noqa: BLE001 - the last catch of the process
        if debug_wanted():
            traceback.print_exc(file=sys.stderr)
        say(f"error: autotune failed unexpectedly: {type(error).__name__}: {error}")
        say("hint: this is a defect; run the same command with --debug to see where.")
        raise typer.Exit(AutotuneError.exit_code) from None

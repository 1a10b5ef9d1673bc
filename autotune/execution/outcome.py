"""How an attempt ended, judged from what it left behind."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path

from autotune.execution.failure_patterns import last_error, recognise
from autotune.search.types import EndKind, Outcome
from autotune.spec.values import JsonValue

RESULT_NAME = "result.json"

_HINTS: dict[EndKind, str] = {
    EndKind.OUT_OF_MEMORY: "Lower the micro-batch size or the response length, or give the trial more memory.",
    EndKind.NON_FINITE: "Lower the learning rate or clip the gradients harder.",
    EndKind.CONFIG: "Correct the configuration; `autotune plan` checks it without starting anything.",
    EndKind.PORT_IN_USE: "Another process holds the port; the trial is tried again with another one.",
    EndKind.NODE: "The trial is tried again on what is left of the cluster.",
    EndKind.CRASH: "Read the end of the attempt's log.",
    EndKind.UNKNOWN: "Read the end of the attempt's log.",
}


def read_result(directory: Path) -> Mapping[str, JsonValue] | None:
    """The trial's ``result.json``; ``None`` where there is none or it is not a JSON object."""
    try:
        data = json.loads((directory / RESULT_NAME).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def classify(
    result: Mapping[str, JsonValue] | None,
    exit_code: int,
    log_tail: str,
    *,
    last_step: int,
    expected_steps: int,
    stopping: bool = False,
) -> Outcome:
    """Says how an attempt ended; its cost is for the caller to add.

    Success is judged by the last step reached, not by the exit code.

    Args:
        result: The process's own ``result.json``; ``None`` if it left none.
        exit_code: Exit code, or minus the number of the signal that ended the process.
        log_tail: The end of what it printed.
        last_step: The last step that arrived in its metrics.
        expected_steps: Steps of a full trial; 0 = not known.
        stopping: The process had been told to end.
    """
    reached = max(last_step, _int(result.get("last_step")) if result else 0)
    if 0 < expected_steps <= reached:
        return Outcome(kind=EndKind.FINISHED, last_step=reached, message=_odd_end(result, exit_code, stopping))
    if result is not None:
        return _from_result(result, exit_code, log_tail, reached, expected_steps)
    if stopping:
        how = "" if exit_code in (0, 10) else f"it did not end by itself ({_exit(exit_code)})"
        return Outcome(kind=EndKind.STOPPED, last_step=reached, message=how)
    return _from_traces(exit_code, log_tail, reached)


def _from_result(
    result: Mapping[str, JsonValue], exit_code: int, log_tail: str, reached: int, expected_steps: int
) -> Outcome:
    status = result.get("status")
    if status == "stopped":
        return Outcome(kind=EndKind.STOPPED, last_step=reached)
    if status == "finished" and expected_steps == 0:
        return Outcome(kind=EndKind.FINISHED, last_step=reached)
    if status == "finished":
        early = f"the process says it finished, but it reached step {reached} of {expected_steps}"
        return Outcome(
            kind=EndKind.UNKNOWN,
            last_step=reached,
            message=early,
            hint="Look whether the data or another limit of the trainer ends the run before its last step.",
        )
    error = result.get("error")
    details = error if isinstance(error, dict) else result
    kind = _kind(details.get("kind"))
    if kind is EndKind.UNKNOWN and not details.get("message"):
        return _from_traces(exit_code, log_tail, reached)
    message = _text(details.get("message")) or f"the process reports {kind}"
    return Outcome(
        kind=kind, last_step=reached, message=message, hint=_text(details.get("hint")) or _HINTS.get(kind, "")
    )


def _from_traces(exit_code: int, log_tail: str, reached: int) -> Outcome:
    error = last_error(log_tail)
    found = recognise(error) or recognise(log_tail)
    if found is not None:
        return Outcome(
            kind=found.kind,
            last_step=reached,
            message=found.line or error or found.kind,
            hint=found.hint or _HINTS.get(found.kind, ""),
        )
    if exit_code == -signal.SIGKILL:
        return Outcome(
            kind=EndKind.OUT_OF_MEMORY,
            last_step=reached,
            message="killed by SIGKILL without a word, as the kernel does when the machine's own memory runs out",
            hint="Give the trial more host memory, or run fewer trials at a time.",
        )
    message = f"{error} ({_exit(exit_code)})" if error else f"ended without a result: {_exit(exit_code)}"
    return Outcome(kind=EndKind.CRASH, last_step=reached, message=message, hint=_HINTS[EndKind.CRASH])


def _odd_end(result: Mapping[str, JsonValue] | None, exit_code: int, stopping: bool) -> str:
    if stopping or (exit_code == 0 and (result is None or result.get("status") == "finished")):
        return ""
    return f"reached its last step, then ended with {_exit(exit_code)}"


def _exit(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"


def _kind(value: JsonValue | None) -> EndKind:
    try:
        kind = EndKind(str(value))
    except ValueError:
        return EndKind.UNKNOWN
    return EndKind.UNKNOWN if kind in (EndKind.FINISHED, EndKind.STOPPED) else kind


def _int(value: JsonValue | None) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(value: JsonValue | None) -> str:
    return value if isinstance(value, str) else ""

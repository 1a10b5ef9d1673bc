"""How a trainer under measurement takes one step at a time: it waits for a word on stdin and answers on stdout.

Two trainers whose steps alternate see the same machine: whatever else runs there slows both. Needs the standard library
alone, because the peer's environment has little of ours.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import TextIO


class Gate:
    """The trainer's end of the line. From now on whatever else is printed goes to stderr.

    A step lasts from one `step_begins` to the next, so nothing that a trainer does between two steps is left out.
    """

    def __init__(self) -> None:
        self._line: TextIO = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._started: tuple[float, float] | None = None

    def step_begins(self, tokens: int, *, last: bool) -> None:
        """Reports the step before, if there was one, and waits until the next may begin.

        Args:
            tokens: Prompt and response tokens that the step before trained on, padding left out.
            last: The step before was the last: there is nothing to wait for.
        """
        if self._started is None:
            self._say({"ready": True})
        else:
            seconds, cpu_seconds = time.perf_counter() - self._started[0], time.process_time() - self._started[1]
            self._say({"seconds": seconds, "cpu_seconds": cpu_seconds, "tokens": tokens})
        if not last and not sys.stdin.readline():
            raise SystemExit("the benchmark has gone")
        self._started = time.perf_counter(), time.process_time()

    def end(self, versions: dict[str, str]) -> None:
        """Reports the largest resident set of this process since its start, imports and loading included (GiB)."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        self._say({"peak_memory_gib": peak, "versions": versions})

    def _say(self, words: dict[str, object]) -> None:
        self._line.write(json.dumps(words) + "\n")
        self._line.flush()


def vowels(response: str) -> float:
    """The reward of both: the share of vowels. Cheap, and hardly ever the same for a whole group."""
    return sum(char in "aeiou" for char in response) / max(1, len(response))

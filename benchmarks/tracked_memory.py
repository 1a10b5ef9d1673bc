"""Run the trainer in this process and say, on stdout, the most bytes that its tensors held at once."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from trainer.config import build, compose
from trainer.signals import StopFlag


def main() -> None:
    """Takes overrides as one JSON object on the command line."""
    config = build(compose("config", json.loads(sys.argv[1])))
    from torch.profiler import ProfilerActivity, profile

    from trainer.loop import run_session

    with (
        tempfile.TemporaryDirectory() as directory,
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler,
    ):
        run_session(config, Path(directory), StopFlag())
    events = profiler.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    held = peak = 0
    for _, change in changes:
        held += change
        peak = max(peak, held)
    print(json.dumps({"peak": peak}))


if __name__ == "__main__":
    main()

"""A driver process for tests: runs trials on a Ray of its own. Arguments: job directory, configurations as JSON."""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from fake_coordinator import FakeCoordinator

from autotune.clock import SystemClock
from autotune.execution.ray_tune import run_on_ray
from autotune.spec.types import Resources


def listening():
    """Processes of this run that accept connections from outside the loopback."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and not fields[1].split(":")[0].endswith("0100007F"):
                inodes.add(f"socket:[{fields[9]}]")
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = tempfile.gettempdir() in str((process / "fd" / "1").readlink()) or process.name == str(os.getpid())
            if ours and inodes & {str(fd.readlink()) for fd in (process / "fd").iterdir()}:
                found.add((process / "comm").read_text().strip())
        except OSError:
            continue
    return found


if __name__ == "__main__":
    own_handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    handlers, addresses = [], set()
    coordinator = FakeCoordinator(json.loads(sys.argv[2]))
    run_on_ray(
        coordinator,
        backend="process_backend:BACKEND",
        job_dir=Path(sys.argv[1]),
        resources=Resources(cpus=0.5),
        parallel=2,
        steps=4,
        grace_s=1.0,
        address=None,
        clock=SystemClock(),
        on_idle=lambda: (handlers.append(signal.getsignal(signal.SIGTERM)), addresses.update(listening())),
    )
    taken = any(handler != handlers[0] for handler in handlers) or handlers[0].__name__ != "<lambda>"
    ends = {str(trial): outcome.kind.value for trial, _, outcome in coordinator.ends}
    left = [str(path) for path in Path(tempfile.gettempdir()).glob("autotune-*")]
    result = {"ends": ends, "sigterm_was_taken": taken, "left": left, "listening": sorted(addresses)}
    result["imported"] = [name for name in ("mlflow", "wandb") if name in sys.modules]
    Path(sys.argv[1], "ends.json").write_text(json.dumps(result))

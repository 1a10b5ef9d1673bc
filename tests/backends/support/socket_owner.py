"""Starts a Ray and binds the socket that verl would: ``python -m socket_owner MINE OTHER``; waits for the other's."""

import socket
import sys
import time
from pathlib import Path

import ray


@ray.remote
class Trainer:
    def handle(self):
        """The name as verl's rollout makes it, in a worker."""
        return f"/tmp/rl-colocate-zmq-{ray.get_runtime_context().get_job_id()}-replica-0-rank-0.sock"


def main():
    ray.init(num_cpus=1, include_dashboard=False)
    trainer = Trainer.options(name="server_0").remote()
    path = ray.get(trainer.handle.remote())
    assert path == ray.get(ray.get_actor("server_0").handle.remote())
    mine, other = map(Path, sys.argv[1:])
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(path)
        mine.with_suffix(".new").write_text(path)
        mine.with_suffix(".new").rename(mine)
        until = time.monotonic() + 240
        while not other.exists() and time.monotonic() < until:
            time.sleep(0.1)
        Path(path).unlink()
    sys.exit(0 if other.exists() else 1)


if __name__ == "__main__":
    main()

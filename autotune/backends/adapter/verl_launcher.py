"""Runs a module as ``python -m`` does, in a Ray whose job id no other run on the machine has.

    python verl_launcher.py verl.trainer.main_ppo ARGUMENT...

verl names the sockets between its trainer and vLLM after Ray's job id (``/tmp/rl-colocate-zmq-{job id}-...``), which is
the same for the first job of every fresh Ray; two runs on one machine would share them. A driver may bring a job id of
its own to Ray instead of taking the next one, and workers, actors and sockets follow it.

Run by verl's interpreter, which knows nothing of this project: nothing but the standard library is imported, and Ray's
own module is touched when verl imports it.
"""

import atexit
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH120, PTH100 - pathlib would be looked for beside this file
STATE = "ray._private.state"
"""The module of Ray that hands a driver its job id."""


class JobId:
    """An import hook: once Ray's module is there, the next driver gets this job id.

    Args:
        number: From 1 to 2^32 - 2; Ray keeps the last one for itself.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.taken = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Finds Ray's module where it is, and has it changed after its import."""
        if name != STATE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Changing(spec.loader, self)
        return spec

    def give(self, module: ModuleType) -> None:
        """Lets Ray's module answer with the job id."""
        if callable(getattr(module, "next_job_id", None)):
            vars(module)["next_job_id"] = self.of_ray
            self.taken = True

    def of_ray(self) -> object:
        """The job id as Ray writes it."""
        made: object = sys.modules["ray"].JobID.from_int(self.number)
        return made

    def warn(self) -> None:
        """Says at the end that this Ray had a job id like any other."""
        if "ray" in sys.modules and not self.taken:
            words = "this Ray takes no job id from its driver; runs of verl side by side on a machine share sockets."
            print(f"autotune: {words}", flush=True)  # noqa: T201 - the log of the attempt


class _Changing(Loader):
    """Loads a module as its own loader does, then hands it on to be changed."""

    def __init__(self, inner: Loader, job: JobId) -> None:
        self._inner = inner
        self._job = job

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._job.give(module)


def main() -> None:
    """Becomes the module that was named."""
    if sys.path and os.path.abspath(sys.path[0] or ".") == HERE:  # noqa: PTH100
        sys.path[0] = os.getcwd()  # noqa: PTH109 - as `python -m` has it
    import runpy

    job = JobId(1 + int.from_bytes(os.urandom(4), "big") % (2**31 - 1))
    sys.meta_path.insert(0, job)
    atexit.register(job.warn)
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

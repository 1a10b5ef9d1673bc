"""A backend for tests: runs ``tiny_trial.py`` with the configuration as it is."""

import json
import sys
from pathlib import Path

from autotune.backends.base import Command

SCRIPT = Path(__file__).with_name("tiny_trial.py")


class ProcessBackend:
    name = "process"

    def describe(self, trainer):
        raise NotImplementedError("tests give complete configurations")

    def check(self, config):
        return ()

    def prepare(self, config, directory):
        (directory / "config.yaml").write_text(json.dumps(dict(config)))
        return Command(argv=[sys.executable, "-I", "-S", str(SCRIPT)], env={"TINY": "1"})


BACKEND = ProcessBackend()

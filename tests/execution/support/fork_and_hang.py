"""A worker for tests that has one trial forked and waits. Arguments: the servers' directory, the trial's directory."""

import os
import sys
import time
from pathlib import Path

from autotune.backends.base import Command
from autotune.execution.fork_servers import ForkServers, WarmPlace
from autotune.execution.trial_lock import try_lock
from autotune.execution.trial_process import TrialProcess

warm, directory = map(Path, sys.argv[1:])
command = Command(argv=(sys.executable, "-m", "forked_trial", "polite"), preload="forked_imports")
servers = ForkServers(WarmPlace(directory=warm, watched=os.getpid(), idle_s=60.0))
server = servers.ready(command, os.environ, time.monotonic() + 60)
trial = TrialProcess(command, directory, attempt=1, grace_s=5.0, lock=try_lock(directory), server=server)
trial.wait(60)

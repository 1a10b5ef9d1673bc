import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from live_processes import processes, wait_until


@pytest.fixture
def no_strays(tmp_path):
    """A directory in which no process may be left at the end of the test."""
    yield tmp_path
    wait_until(lambda: not processes(str(tmp_path)), 10, f"the end of {processes(str(tmp_path))}")

"""A home directory for each module, whose processes must all have ended when its tests are done."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.e2e.support import Home, wait_until


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(path=tmp_path_factory.mktemp("e2e") / "home")
    yield home
    wait_until(lambda: not home.processes(), 60, f"every process has ended: {home.processes()}")


@pytest.fixture(scope="module")
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

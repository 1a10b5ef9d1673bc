"""``autotune watch`` as a person sees it: a real process on a pseudo-terminal, over a real service."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest
import uvicorn

from autotune.api import create_app
from autotune.cli.commands.serve import listen
from autotune.settings import Settings
from tests.fakes import finished_job, finished_trials, make_curve, make_job, make_pruned, make_trial
from tests.serving import served
from tests.web.support import WebService

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PATIENCE_S = 90


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments, url, home, columns=160, **environment):
        self._end, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AUTOTUNE_", "NO_COLOR", "COLUMNS"))
        }
        env = {**kept, "AUTOTUNE_URL": url, "AUTOTUNE_HOME": str(home), "TERM": "xterm-256color", **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autotune.cli.main", *arguments],
            stdin=end,
            stdout=end,
            stderr=end,
            env=env,
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(end)
        self.raw = ""

    @property
    def text(self):
        """What was written, without colours and movements."""
        return ESCAPE.sub("", self.raw)

    def read_until(self, condition, what):
        """Reads until the text fulfils the condition; fails with what there is when it never does."""
        end = time.monotonic() + PATIENCE_S
        while not condition(self.text):
            assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}\n{self.text[-3000:]}"
            if select.select([self._end], [], [], 0.2)[0]:
                try:
                    self.raw += os.read(self._end, 65536).decode(errors="replace")
                except OSError:  # the other end is closed: the process is ending
                    self.process.wait(timeout=PATIENCE_S)
                    assert condition(self.text), f"it ended before {what}\n{self.text[-3000:]}"

    def press(self, key):
        os.write(self._end, key)

    def end(self):
        """Reads the rest; the exit code."""
        self.read_until(lambda _: self.process.poll() is not None, "it ends")
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._end)


@pytest.fixture
def service(tmp_path):
    """A job at work: one trial completed, one pruned, one running."""
    service = WebService(tmp_path)
    metrics = {"eval/reward": 0.4, "kl/actor_ref": 0.06, "perf/tokens_per_s": 4321.0}
    running = make_trial(3, state="running", value=None, metrics=metrics, last_step=12)
    trials = [make_trial(0), make_trial(1), make_pruned(2), running]
    job = make_job(
        state="running",
        trials={"completed": 2, "pruned": 1, "running": 1},
        started_at=1_700_000_000.0,
        best_trial=1,
        best_value=0.6,
        default_value=0.5,
        budget_trials=9,
    )
    service.put(job, trials, [make_curve(trial.number) for trial in trials])
    return service


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def start(*arguments, **options):
        opened.append(Terminal(*arguments, home=tmp_path / "home", **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def finish(service):
    service.put(finished_job(), finished_trials(), [])


def test_a_table_moves_until_the_job_ends_and_then_the_summary_stands(service, terminal, tmp_path):
    with served(create_app(service, Settings(home=tmp_path))) as url:
        watch = terminal("watch", "demo-1", url=url)
        watch.read_until(lambda text: "12/40" in text and "4,321" in text, "the running trial with its speed")
        assert "kl_ceiling: kl/actor_ref was 0.31" in watch.text
        assert "used: trials 3/9" in watch.text
        assert re.search("[\u2581-\u2588]{3}", watch.text), "the shape of a curve"
        finish(service)
        assert watch.end() == 0
    assert "Winner: trial 1, eval/reward 0.6" in watch.text
    assert "\x1b[1A" in watch.raw, "it is drawn again in its place"
    assert "\x1b[36m" in watch.raw, "in colours"
    assert watch.raw.rstrip().count("\x1b[?25l") == watch.raw.count("\x1b[?25h"), "the cursor is shown again"


def test_ctrl_c_lets_go_of_the_job_and_says_how_to_come_back(service, terminal, tmp_path):
    with served(create_app(service, Settings(home=tmp_path))) as url:
        watch = terminal("watch", "demo-1", url=url)
        watch.read_until(lambda text: "12/40" in text, "the table")
        watch.press(b"\x03")
        assert watch.end() == 130
    assert "autotune watch demo-1" in watch.text
    assert "autotune cancel demo-1" in watch.text
    assert "Traceback" not in watch.text
    assert service.job("demo-1").state == "running"


def test_without_colours_nothing_is_coloured_and_the_table_moves_all_the_same(service, terminal, tmp_path):
    with served(create_app(service, Settings(home=tmp_path))) as url:
        watch = terminal("watch", "demo-1", url=url, NO_COLOR="1")
        watch.read_until(lambda text: "12/40" in text, "the table")
        finish(service)
        assert watch.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-7][;m]", watch.raw)


def test_a_service_that_goes_away_and_returns_is_followed_again(service, terminal, tmp_path):
    app = create_app(service, Settings(home=tmp_path))
    with served(app) as url:
        watch = terminal("watch", "demo-1", url=url)
        watch.read_until(lambda text: "12/40" in text, "the table")
    finish(service)
    with listen("127.0.0.1", int(url.rpartition(":")[2])) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert watch.end() == 0
        finally:
            server.should_exit = True
            thread.join(timeout=10)
    assert "Winner: trial 1" in watch.text

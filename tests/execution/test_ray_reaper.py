import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live_processes import wait_until

from autotune.execution import ray_reaper

HOLD = "import sys, time; held = open(sys.argv[1]); print('up', flush=True); time.sleep(60)"


def test_users_of_the_directory_are_killed_and_their_starter_is_spared(tmp_path):
    log, outside = tmp_path / "ray" / "log", tmp_path / "other"
    log.parent.mkdir()
    log.touch()
    outside.touch()
    inside_user, outside_user = (
        subprocess.Popen([sys.executable, "-I", "-S", "-c", HOLD, str(path)], stdout=subprocess.PIPE)
        for path in (log, outside)
    )
    for process in (inside_user, outside_user):
        assert process.stdout.readline() == b"up\n"
    with log.open():  # as the driver keeps Ray's logs open after its shutdown
        reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", ray_reaper.__file__, str(log.parent)], stdin=subprocess.PIPE
        )
        reaper.stdin.close()
        assert reaper.wait(20) == 0
    assert inside_user.wait(10) == -9
    assert outside_user.poll() is None
    assert not log.parent.exists()
    outside_user.kill()
    outside_user.wait()


def ignores_sigterm(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.split("SigIgn:")[1].split()[0], 16) & 1 << (signal.SIGTERM - 1))


def test_neither_input_nor_sigterm_makes_it_act_before_the_end_of_file(tmp_path):
    reaper = subprocess.Popen([sys.executable, "-I", "-S", ray_reaper.__file__, str(tmp_path)], stdin=subprocess.PIPE)
    wait_until(lambda: ignores_sigterm(reaper.pid))
    reaper.terminate()
    reaper.stdin.write(b"still here")
    reaper.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        reaper.wait(0.2)
    assert tmp_path.exists()
    reaper.stdin.close()
    assert reaper.wait(20) == 0
    assert not tmp_path.exists()

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from live_processes import processes, wait_until

from autotune.execution import guard

GUARD = [sys.executable, "-I", "-S", guard.__file__]


def run(*arguments, **options):
    return subprocess.run([*GUARD, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)


def start(directory, code, grace="5"):
    """A guard whose parent is this test, in the directory by which its processes are found again."""
    return subprocess.Popen(
        [*GUARD, "--grace", grace, "--", sys.executable, "-I", "-S", "-c", code],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


SLEEP = "import time; time.sleep(60)"
DEAF = "import signal, time; signal.signal(15, lambda *_: None); print('up', flush=True)\nwhile True: time.sleep(60)"
FAMILY = f"""
import subprocess, sys, time
for own_session in (False, True):
    subprocess.Popen([sys.executable, "-I", "-S", "-c", {DEAF!r}], start_new_session=own_session)
time.sleep(60)
"""


@pytest.mark.parametrize("code", [0, 1, 10, 255])
def test_the_exit_code_is_passed_on(code):
    assert run("--grace", "1", "--", "/bin/sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT])
def test_the_signal_is_passed_on(number):
    assert run("--grace", "1", "--", "/bin/sh", "-c", f"kill -{number} $$").returncode == -number


def test_a_command_that_does_not_exist_is_named():
    done = run("--grace", "1", "--", "/does/not/exist")
    assert done.returncode == 127
    assert "'/does/not/exist'" in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["--", "true"], ["--grace", "1"], ["--grace", "x", "--", "true"], ["--no", "1"]]
)
def test_a_wrong_command_line_is_refused(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_sigterm_reaches_the_command_which_may_end_in_its_own_way(no_strays):
    code = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(10)); print('up', flush=True); time.sleep(60)"
    )
    process = start(no_strays, code)
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 10


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(no_strays):
    process = start(no_strays, DEAF, grace="0.3")
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGKILL


def test_a_second_sigterm_ends_the_grace_at_once(no_strays):
    process = start(no_strays, DEAF, grace="50")
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: process.poll() is not None or process.send_signal(signal.SIGTERM), 10)
    assert process.returncode == -signal.SIGKILL


def test_everything_ends_when_the_pipe_to_the_parent_closes(no_strays):
    process = start(no_strays, SLEEP)
    wait_until(lambda: len(processes(str(no_strays))) == 2)
    process.stdin.close()
    assert process.wait(10) == -signal.SIGTERM


def test_grandchildren_in_and_outside_the_group_die_when_the_parent_is_killed(no_strays):
    parent = subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", "-c"),
            "import subprocess, sys, time;"
            "subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True); time.sleep(60)",
            *(*GUARD, "--grace", "0.3", "--", sys.executable, "-I", "-S", "-c", FAMILY),
        ],
        cwd=no_strays,
        stdout=subprocess.PIPE,
    )
    assert [parent.stdout.readline() for _ in range(2)] == [b"up\n", b"up\n"]
    assert len(processes(str(no_strays))) == 5
    parent.kill()
    parent.wait()
    wait_until(lambda: not processes(str(no_strays)), 5)


def test_the_guard_stays_until_orphans_of_the_command_are_gone(no_strays):
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {!r}], start_new_session=True)"
    process = start(no_strays, code.format(SLEEP))
    assert process.wait(10) == 0
    assert processes(str(no_strays)) == []


def test_a_killed_guard_takes_its_command_along(no_strays):
    process = start(no_strays, SLEEP)
    wait_until(lambda: len(processes(str(no_strays))) == 2)
    process.kill()
    wait_until(lambda: not processes(str(no_strays)), 5)
    process.wait()


def test_the_end_of_the_thread_that_started_the_guard_is_not_the_end_of_its_parent(no_strays):

    with ThreadPoolExecutor(1) as pool:
        process = pool.submit(
            start, no_strays, "print('up', flush=True); input_ = __import__('time').sleep(1.5)"
        ).result()
    process.stdout.readline()
    assert process.wait(10) == 0


def test_it_imports_nothing_that_is_slow():
    code = f"import sys; sys.path.insert(0, {str(Path(guard.__file__).parent)!r}); import guard; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"autotune", "argparse", "subprocess", "threading", "typing", "pathlib"} & set(loaded.split())

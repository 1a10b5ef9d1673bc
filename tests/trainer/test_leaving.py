"""A process leaves with its code, its words and what was registered for its end, and is not taken apart."""

import subprocess
import sys

PROGRAM = """
import atexit, sys, threading
from trainer.leaving import leave

class Late:
    def __del__(self):
        print("taken apart")

late = Late()
atexit.register(print, "registered")
ended = threading.Event()
threading.Thread(target=lambda: (ended.wait(0.2), print("thread"))).start()
sys.stderr.write("said")
leave(int(sys.argv[1]))
"""


def test_a_process_leaves_in_order_without_being_taken_apart():
    done = subprocess.run([sys.executable, "-c", PROGRAM, "10"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (10, "thread\nregistered\n", "said")


def test_a_failing_function_for_the_end_does_not_change_the_code():
    program = "import atexit; from trainer.leaving import leave; atexit.register(lambda: 1 / 0); leave(0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "ZeroDivisionError" in done.stderr

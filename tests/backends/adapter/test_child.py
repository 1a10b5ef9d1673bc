import os
import subprocess
import sys
from pathlib import Path

ADAPTER = """
import sys
from pathlib import Path
from autotune.backends.adapter.child import Child

def fail(line):
    raise OSError("No space left on device")

code = "import time; print('up', flush=True); time.sleep(60)"
Child([sys.executable, "-c", code], {"MARK": sys.argv[1]}, Path("/"), on_line=fail, on_look=lambda: None).run()
"""
ROOT = Path(__file__).resolve().parents[3]


def living(mark):
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                yield directory.name
        except OSError:
            continue


def test_an_adapter_that_fails_takes_the_program_with_it(tmp_path):
    mark = str(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", ADAPTER, mark],
        cwd=ROOT,
        env={**os.environ, "MARK": "other"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert run.returncode == 1
    assert "No space left on device" in run.stderr
    assert list(living(mark)) == []

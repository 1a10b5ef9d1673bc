"""A trial process that keeps the contract and misbehaves on demand; standard library only, starts at once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

config = json.loads(Path("config.yaml").read_text())
steps = config.get("steps", 4)
how = config.get("how", "")
at = config.get("at", steps)
stopped = False


def on_term(*_):
    global stopped
    stopped = how != "deaf"


signal.signal(signal.SIGTERM, on_term)


def append(line):
    with Path("metrics.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def checkpoint(step):
    Path(f"checkpoints/step_{step}").mkdir(parents=True, exist_ok=True)
    append({"step": step, "time": time.time(), "checkpoint": f"checkpoints/step_{step}"})


def result(status, step, **error):
    Path("result.tmp").write_text(json.dumps({"status": status, "last_step": step, "error": error or None}))
    Path("result.tmp").replace("result.json")


def misbehave(step):
    if how == "crash_once" and not Path("crashed").exists():
        Path("crashed").touch()
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "oom":
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB", flush=True)
        sys.exit(1)
    if how == "fail":
        result("failed", step, kind="non_finite", message="the loss is not finite")
        sys.exit(1)
    if how == "hang" or how == "deaf":
        while not stopped:
            time.sleep(0.02)
    if how == "kill_worker" and not Path("killed").exists():
        Path("killed").touch()
        guard = os.getppid()
        worker = int(Path(f"/proc/{guard}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(worker, signal.SIGKILL)
        time.sleep(60)


if how == "family":
    code = "import os, time; open('grandchild', 'w').write(str(os.getpid())); time.sleep(60)"
    subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
done = max((int(path.name[5:]) for path in Path("checkpoints").glob("step_*")), default=0)
print("starts after step", done, flush=True)
step = done
while step < steps and not stopped:
    step += 1
    time.sleep(config.get("step_s", 0.0))
    reward = step / 10 + config.get("bonus", 0)
    append({"step": step, "time": time.time(), "metrics": {"reward/mean": reward, "kl/actor_ref": 0.01 * step}})
    if step % config.get("save_freq", 1000) == 0:
        checkpoint(step)
    if step == at:
        misbehave(step)
if stopped:
    checkpoint(step)
    result("stopped", step)
    sys.exit(10)
result("finished", step)

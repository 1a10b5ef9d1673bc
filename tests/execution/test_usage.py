"""What a trial's processes take is measured beside them, under MLflow's names."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.execution.strays import MARK
from autotune.execution.usage import SYSTEM_METRICS, Gpus, Usage

HOLD = "import sys; kept = bytearray(b'x' * 50_000_000); print('ready', flush=True); sys.stdin.read()"
BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint('ready', flush=True)\nimport sys; sys.stdin.read()"


@pytest.fixture
def process():
    """Starts Python processes that say when they are ready and live until the end of the test."""
    started = []

    def start(code, **options):
        one = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        started.append(one)
        assert one.stdout.readline() == b"ready\n"
        return one.pid

    yield start
    for one in started:
        one.send_signal(signal.SIGKILL)
        one.communicate()


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_memory_is_that_of_the_group_and_of_what_has_left_it(process):
    clock = Clock()
    group = process(HOLD, start_new_session=True)
    usage = Usage(group, "trial#1", now=clock)
    clock.now += 10.0
    alone = usage.due()["system/system_memory_usage_megabytes"]
    assert 50 < alone < 200
    process(HOLD, start_new_session=True, env={**os.environ, MARK: "trial#1"})
    process(HOLD, start_new_session=True, env={**os.environ, MARK: "trial#2"})
    clock.now += 10.0
    both = usage.due()
    assert alone + 50 < both["system/system_memory_usage_megabytes"] < 2.5 * alone
    assert 0 < both["system/system_memory_usage_percentage"] < 100


def test_a_program_may_have_any_name(process):
    clock = Clock()
    odd = "open('/proc/self/comm', 'wb').write(b'\\xff) 1 (x'); print('ready', flush=True); input()"
    usage = Usage(process(odd, start_new_session=True), "odd#1", now=clock)
    clock.now += 10.0
    assert 1 < usage.due()["system/system_memory_usage_megabytes"] < 100


def test_processor_time_is_a_share_of_the_machine_since_the_last_value(process):
    clock = Clock()
    usage = Usage(process(BURN, start_new_session=True), "burn#1", now=clock)
    clock.now += 10.0
    first = usage.due()["system/cpu_utilization_percentage"]
    assert 100 * 0.45 / 10 / os.cpu_count() < first < 100 * 1.5 / 10 / os.cpu_count()
    clock.now += 10.0
    assert usage.due()["system/cpu_utilization_percentage"] < first / 5, "it has only waited since"


def test_it_is_measured_every_ten_seconds_and_not_more_often():
    clock = Clock()
    usage = Usage(os.getpgid(0), "self#1", now=clock)
    assert usage.due() is None
    clock.now += 9.9
    assert usage.due() is None
    clock.now += 0.1
    assert usage.due() is not None
    assert usage.due() is None


def test_of_processes_that_are_gone_nothing_is_said():
    clock = Clock()
    usage = Usage(2**22 + 1, "nobody#1", now=clock)
    clock.now += 10.0
    assert usage.due() is None


class LostError(Exception):
    """The library's own error."""


def library(**changes):
    """NVIDIA's management library over two GPUs, the second of which does not tell how busy it is."""
    busy = iter([20, 60, 90])

    def rates(handle):
        if handle != 0:
            raise LostError
        return SimpleNamespace(gpu=next(busy))

    def index(number):
        if number > 1:
            raise LostError
        return number

    parts = {
        "NVMLError": LostError,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByIndex": index,
        "nvmlDeviceGetHandleByUUID": lambda name: {"GPU-a": 0, "GPU-b": 1}[name],
        "nvmlDeviceGetUtilizationRates": rates,
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=(handle + 1) * 1e9, total=4e9),
        "nvmlDeviceGetPowerUsage": lambda handle: 250_000 + handle,
    }
    return SimpleNamespace(**{**parts, **changes})


def test_a_trials_gpus_are_counted_as_it_counts_them_and_their_looks_are_averaged():
    gpus = Gpus("GPU-b, GPU-a", library())
    gpus.look()
    gpus.look()
    found = gpus.read()
    assert "system/gpu_0_utilization_percentage" not in found
    assert found["system/gpu_0_memory_usage_megabytes"] == 2000
    assert found["system/gpu_0_memory_usage_percentage"] == 50
    assert found["system/gpu_1_utilization_percentage"] == 40
    assert found["system/gpu_1_power_usage_watts"] == 250
    gpus.look()
    assert gpus.read()["system/gpu_1_utilization_percentage"] == 90
    assert {name.replace("gpu_0", "gpu_N").replace("gpu_1", "gpu_N") for name in found} <= set(SYSTEM_METRICS)


def fail():
    raise LostError


@pytest.mark.parametrize(
    ("visible", "one"),
    [("", library()), ("0,7", library()), ("0", library(nvmlInit=fail)), ("0", None)],
    ids=["none is given", "an unknown number", "no driver", "as on this machine"],
)
def test_without_gpus_nothing_is_said_of_them(visible, one):
    if one is None and Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has one")
    gpus = Gpus(visible, one)
    gpus.look()
    assert gpus.read() == {}

import json

import pytest

from autotune.execution.failure_patterns import last_error, recognise
from autotune.execution.outcome import classify, read_result
from autotune.search.types import EndKind


def judge(result=None, code=1, log="", last=3, expected=10, stopping=False):
    return classify(result, code, log, last_step=last, expected_steps=expected, stopping=stopping)


@pytest.mark.parametrize("code", [0, 1, 10, -9, -11])
def test_success_is_judged_by_the_last_step_and_not_by_the_exit_code(code):
    outcome = judge(code=code, last=10, log="CUDA out of memory")
    assert outcome.kind is EndKind.FINISHED
    assert bool(outcome.message) == (code != 0)


def test_a_process_that_says_finished_too_early_is_not_finished():
    outcome = judge({"status": "finished", "last_step": 7}, code=0)
    assert outcome.kind is EndKind.UNKNOWN
    assert "step 7 of 10" in outcome.message


def test_the_result_may_know_a_later_step_than_the_metrics():
    assert judge({"status": "finished", "last_step": 10}, code=0, last=9).kind is EndKind.FINISHED


def test_finished_without_a_known_number_of_steps_is_finished():
    assert judge({"status": "finished"}, code=0, expected=0).kind is EndKind.FINISHED


def test_a_stopped_result_is_stopped_even_if_nobody_here_asked_for_it():
    assert judge({"status": "stopped", "last_step": 3}, code=10).kind is EndKind.STOPPED


@pytest.mark.parametrize(
    "kind", ["out_of_memory", "non_finite", "config", "data", "port_in_use", "weight_sync", "node"]
)
def test_the_process_names_its_own_failure(kind):
    result = {"status": "failed", "error": {"kind": kind, "message": "m", "hint": "h"}, "last_step": 4}
    outcome = judge(result, log="Address already in use")
    assert (outcome.kind, outcome.message, outcome.hint, outcome.last_step) == (EndKind(kind), "m", "h", 4)


@pytest.mark.parametrize("kind", ["banana", None, 3, "finished"])
def test_a_failure_of_no_known_kind_is_unknown(kind):
    assert judge({"status": "failed", "error": {"kind": kind, "message": "m"}}).kind is EndKind.UNKNOWN


def test_an_unexplained_failure_is_looked_up_in_the_log():
    outcome = judge(
        {"status": "failed", "error": {"kind": "unknown"}}, log="OSError: [Errno 98] Address already in use"
    )
    assert outcome.kind is EndKind.PORT_IN_USE


def test_a_told_process_that_had_to_be_killed_is_stopped_not_out_of_memory():
    outcome = judge(code=-9, stopping=True)
    assert outcome.kind is EndKind.STOPPED
    assert "SIGKILL" in outcome.message


TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    f()\n'


@pytest.mark.parametrize(
    ("log", "code", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", 1, EndKind.OUT_OF_MEMORY),
        ("RuntimeError: CUDA error: out of memory", 1, EndKind.OUT_OF_MEMORY),
        ("ValueError: No available memory for the cache blocks.", 1, EndKind.OUT_OF_MEMORY),
        (
            "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried",
            1,
            EndKind.OUT_OF_MEMORY,
        ),
        ("worker.sh: line 3: 812 Killed\n", 137, EndKind.OUT_OF_MEMORY),
        ("  exitcode  : -9 (pid: 77)", 1, EndKind.OUT_OF_MEMORY),
        ("", -9, EndKind.OUT_OF_MEMORY),
        ("RuntimeError: unable to mmap: insufficient shared memory (shm)", 1, EndKind.OUT_OF_MEMORY),
        (
            "The server socket has failed to bind: EADDRINUSE (errno: 98 - Address already in use)",
            1,
            EndKind.PORT_IN_USE,
        ),
        ("OSError: [Errno 28] No space left on device", 1, EndKind.NODE),
        ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970", 1, EndKind.NODE),
        ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)", -6, EndKind.NODE),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", 1, EndKind.NODE),
        ("RuntimeError: CUDA error: device-side assert triggered", 1, EndKind.CRASH),
        ("ModuleNotFoundError: No module named 'verl'", 1, EndKind.UNKNOWN),
        ("cannot start 'torchrun': No such file or directory", 127, EndKind.UNKNOWN),
        ("omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct", 1, EndKind.CONFIG),
        ("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", 1, EndKind.NON_FINITE),
        ("ValueError: the loss is not finite at step 4", 1, EndKind.NON_FINITE),
        (TRACE + "KeyError: 'prompt'", 1, EndKind.CRASH),
        ("everything is fine", 3, EndKind.CRASH),
        ("", -11, EndKind.CRASH),
    ],
)
def test_a_process_without_a_result_is_judged_by_its_log_and_signal(log, code, kind):
    outcome = judge(code=code, log=log)
    assert outcome.kind is kind
    assert outcome.message
    assert outcome.hint


@pytest.mark.parametrize("log", ["loss: 0.31, grad_norm: 1.2", "Skilled workers", "info: inference is on", "no errors"])
def test_harmless_lines_match_no_pattern(log):
    assert recognise(log) is None


def test_the_message_of_a_crash_is_the_last_line_of_its_traceback():
    log = (
        TRACE + "KeyError: 'first'\n\nDuring handling of the above exception:\n\n" + TRACE + "my.pkg.Odd: second\nbye\n"
    )
    assert last_error(log) == "my.pkg.Odd: second"
    assert judge(log=log).message == "my.pkg.Odd: second (exit code 1)"


def test_the_final_error_outweighs_an_earlier_line_of_the_log():
    log = "Address already in use, trying the next port\n" + TRACE + "torch.OutOfMemoryError: CUDA out of memory"
    assert judge(log=log).kind is EndKind.OUT_OF_MEMORY


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"x"'])
def test_a_broken_result_file_counts_as_none(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    assert read_result(tmp_path) is None


def test_a_result_file_is_read(tmp_path):
    (tmp_path / "result.json").write_text(json.dumps({"status": "stopped"}))
    assert read_result(tmp_path) == {"status": "stopped"}

import time
from dataclasses import replace

import pytest
from process_backend import BACKEND, ProcessBackend

from autotune.errors import InvalidConfigError, Problem
from autotune.execution.backend_path import load_backend
from autotune.execution.metrics_tail import StepLine
from autotune.execution.trial_lock import try_lock
from autotune.execution.worker import HEARTBEAT_S, Job, Worker
from autotune.search.types import Attempt, EndKind, Launch, Origin


def worker(directory, backend="process_backend:BACKEND", load=load_backend, steps=4, grace_s=2.0):
    return Worker(Job(backend=backend, trials_dir=directory, steps=steps, grace_s=grace_s), load)


def launch(number=0, attempt=1, **config):
    return Launch(attempt=Attempt(trial=number, number=attempt, token="t"), config=config, directory=f"{number:04d}")


def run(one):
    lines, outcome = [], None
    while outcome is None:
        report = one.step()
        lines += report.lines
        outcome = report.outcome
    return [line.step for line in lines if isinstance(line, StepLine)], outcome


def test_an_attempt_is_reported_step_by_step_and_then_its_outcome(no_strays):
    one = worker(no_strays)
    one.begin(launch(steps=4))
    steps, outcome = run(one)
    assert steps == [1, 2, 3, 4]
    assert (outcome.kind, outcome.last_step) == (EndKind.FINISHED, 4)


def test_what_an_attempt_takes_of_its_machine_comes_with_its_steps(no_strays):
    job = Job(backend="process_backend:BACKEND", trials_dir=no_strays, steps=4, grace_s=2.0, measure_s=0.0)
    one = Worker(job, load_backend)
    one.begin(launch(how="hang", at=2))
    found = [line for line in one.step().lines if isinstance(line, StepLine)]
    one.close()
    assert found[-1].metrics["system/system_memory_usage_megabytes"] > 1
    assert 0 <= found[-1].metrics["system/cpu_utilization_percentage"] <= 100
    assert set(found[-1].metrics) > {name for name in found[-1].metrics if name.startswith("system/")}, "its own too"
    assert not any(name.startswith("system/") for line in found[:-1] for name in line.metrics)


def test_a_silent_attempt_gives_a_sign_of_life_after_two_seconds(no_strays):
    one = worker(no_strays)
    one.begin(launch(how="hang", at=1))
    while one.step().lines:
        continue
    began = time.monotonic()
    assert one.step().outcome is None
    assert time.monotonic() - began < HEARTBEAT_S + 1
    one.close()


def test_a_stop_is_carried_out_between_reports_and_ends_with_an_outcome(no_strays):
    one = worker(no_strays)
    one.begin(launch(how="hang", at=2))
    one.step()
    one.request_stop()
    _, outcome = run(one)
    assert outcome.kind is EndKind.STOPPED


def test_a_stop_before_the_start_starts_nothing(no_strays):
    one = worker(no_strays)
    one.begin(launch())
    one.request_stop()
    assert one.step().outcome.kind is EndKind.STOPPED
    assert not (no_strays / "0000").exists()


def test_the_next_attempt_ends_the_one_before(no_strays):
    one = worker(no_strays)
    one.begin(launch(0, how="hang", at=1))
    one.step()
    one.begin(launch(1, steps=4))
    assert try_lock(no_strays / "0000") is not None
    assert run(one)[1].kind is EndKind.FINISHED


def test_an_attempt_waits_until_the_processes_of_an_earlier_one_are_gone(no_strays):
    first, second = worker(no_strays), worker(no_strays)
    first.begin(launch(how="hang", at=1))
    first.step()
    second.begin(replace(launch(attempt=2, steps=1), heard=1))
    assert second.step().outcome is None
    assert not (no_strays / "0000" / "attempt_2.log").exists()
    first.close()
    assert run(second)[0] == []  # the checkpoint of the first attempt is already at the last step


def refuse(error):
    class Refusing:
        def prepare(self, config, directory):
            raise error

    return lambda name: Refusing()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (InvalidConfigError("lr is no number", problems=[Problem(message="x")]), EndKind.CONFIG, "lr is no number"),
        (PermissionError(13, "Permission denied", "config.yaml"), EndKind.NODE, "Permission denied"),
        (KeyError("model.path"), EndKind.UNKNOWN, "KeyError: 'model.path'"),
    ],
)
def test_a_backend_that_cannot_prepare_ends_the_attempt_and_not_the_worker(no_strays, error, kind, text):
    one = worker(no_strays, load=refuse(error))
    one.begin(launch())
    outcome = one.step().outcome
    assert outcome.kind is kind
    assert text in outcome.message
    assert try_lock(no_strays / "0000") is not None


@pytest.mark.parametrize("name", ["no_such_module:BACKEND", "process_backend:NOTHING"])
def test_a_backend_that_cannot_be_loaded_says_how_to_name_one(no_strays, name):
    one = worker(no_strays, backend=name)
    one.begin(launch())
    outcome = one.step().outcome
    assert outcome.kind is EndKind.UNKNOWN
    assert "module:attribute" in outcome.hint


def test_a_backend_is_loaded_by_its_path():
    assert load_backend("process_backend:BACKEND") is BACKEND


def test_an_attempt_with_an_origin_goes_on_from_the_other_trials_checkpoint(no_strays):
    (no_strays / "earlier/checkpoints/step_3").mkdir(parents=True)
    one = worker(no_strays, steps=5)
    origin = Origin(directory=str(no_strays / "earlier"), step=3, name="an earlier trial")
    one.begin(replace(launch(steps=5), origin=origin))
    steps, outcome = run(one)
    assert steps == [4, 5]
    assert outcome.kind is EndKind.FINISHED


def test_an_attempt_that_is_to_end_early_has_finished_there(no_strays):
    class Part(ProcessBackend):
        def fixed(self, config, paths):
            return {}

        def until(self, config, step):
            return {**config, "steps": step}

    one = worker(no_strays, steps=5, load=lambda _: Part())
    one.begin(replace(launch(steps=5), until_step=3))
    steps, outcome = run(one)
    assert (steps, outcome.kind, outcome.last_step) == ([1, 2, 3], EndKind.FINISHED, 3)


def test_an_attempt_that_takes_over_gives_up_what_it_had(no_strays):
    (no_strays / "0003/checkpoints/step_3").mkdir(parents=True)
    (no_strays / "0000/checkpoints/step_4").mkdir(parents=True)
    one = worker(no_strays, steps=5)
    one.begin(replace(launch(steps=5), origin=Origin(directory="0003", step=3, name="trial 3", replaces=True)))
    steps, outcome = run(one)
    assert (steps, outcome.kind) == ([4, 5], EndKind.FINISHED)


def test_a_checkpoint_to_take_over_that_is_gone_ends_the_attempt(no_strays):
    one = worker(no_strays, steps=5)
    one.begin(replace(launch(steps=5), origin=Origin(directory="0003", step=3, name="trial 3", replaces=True)))
    outcome = one.step().outcome
    assert "0003 has no checkpoint of step 3" in outcome.message


def test_steps_that_a_dead_worker_did_not_report_come_with_the_next_attempt(no_strays):
    first = worker(no_strays)
    first.begin(launch(steps=3, save_freq=1))
    run(first)  # its worker dies before it reports more than the first step
    second = worker(no_strays)
    second.begin(replace(launch(attempt=2, steps=4, save_freq=1), heard=1))
    steps, outcome = run(second)
    assert (steps, outcome.kind) == ([2, 3, 4], EndKind.FINISHED)


def test_a_trial_that_had_finished_unheard_is_told_and_not_run_again(no_strays):
    first = worker(no_strays)
    first.begin(launch(steps=4, save_freq=1))
    run(first)
    second = worker(no_strays)
    second.begin(replace(launch(attempt=2, steps=4, save_freq=1), heard=2))
    steps, outcome = run(second)
    assert (steps, outcome.kind, outcome.last_step) == ([3, 4], EndKind.FINISHED, 4)

"""Runs of a program that behaves like verl's main: each of its ends is told apart, and its metrics are ours."""

import json
from pathlib import Path

import pytest

from autotune.backends.adapter import verl
from autotune.backends.adapter.verl import environment
from autotune.backends.adapter.verl_checkpoints import TRACKER, Checkpoints
from autotune.backends.verl.metrics import console_step, translate
from autotune.execution.metrics_tail import CheckpointLine
from autotune.search.types import EndKind
from autotune.spec.types import TrainerSpec
from tests.backends.verl_wheel import imitation

SETTINGS = {
    "trainer.total_steps": 5,
    "trainer.n_gpus_per_node": 2,
    "trainer.ppo_micro_batch_size_per_gpu": 4,
    "trainer.optim.lr": 2e-6,
    "trainer.test_freq": 5,
    "trainer.save_freq": 2,
    "algorithm.kl_ctrl.kl_coef": 0.02,
}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return imitation(tmp_path_factory.mktemp("verl"))


@pytest.fixture
def run(attempts, python):
    def make(mishap="", overrides=(), **fields):
        trainer = TrainerSpec(
            backend="verl",
            config="ppo_trainer",
            python=python,
            overrides={**SETTINGS, **dict(overrides)},
            env={"VERL_MISHAP": mishap, "CUDA_VISIBLE_DEVICES": "0,1"},
            steps=5,
            **fields,
        )
        return attempts.run(trainer)

    return make


def test_a_run_finishes_with_our_metrics_and_announces_its_checkpoints(run, attempts):
    steps, outcome, others = run()
    assert (outcome.kind, outcome.last_step) == (EndKind.FINISHED, 5)
    assert list(steps) == [0, 1, 2, 3, 4, 5]
    assert steps[5]["eval/reward"] == steps[5]["reward/mean"] == pytest.approx(5 / 8)
    assert steps[3]["kl/coef"] == 0.02
    assert "eval/reward" not in steps[3]
    paths = [line.path for line in others if isinstance(line, CheckpointLine)]
    assert paths[-1] == "checkpoints/global_step_5"
    assert all((attempts.directory / path / "actor").is_dir() for path in paths)


def test_what_was_repaired_stands_in_the_log_and_in_the_record(run, attempts):
    run()
    log = (attempts.directory / "attempt_1.log").read_text()
    assert "kl_coef has no effect without algorithm.use_kl_in_reward; set it to true" in log
    own = json.loads((attempts.directory / "config.yaml").read_text())["backend"]
    assert own["version"] == "0.9.1"
    assert any("kl_coef" in note for note in own["notes"])
    assert "algorithm.use_kl_in_reward=true" in own["command"]


def test_out_of_memory_is_recognised(run):
    _, outcome, _ = run("oom@3")
    assert (outcome.kind, outcome.last_step) == (EndKind.OUT_OF_MEMORY, 2)
    assert "CUDA out of memory" in outcome.message


def test_a_gradient_that_is_not_finite_is_reported_although_verl_goes_on(run):
    steps, outcome, _ = run("nonfinite@3")
    assert outcome.kind is EndKind.FINISHED
    assert steps[3]["actor/grad_norm"] is None
    assert steps[4]["actor/grad_norm"] == 0.3


def test_an_interrupted_run_goes_on_from_its_checkpoint_into_a_log_of_its_own(run, attempts):
    first, broken, _ = run("oom@4")
    assert broken.kind is EndKind.OUT_OF_MEMORY
    second, outcome, _ = run()
    assert outcome.kind is EndKind.FINISHED
    assert list(first) == [0, 1, 2, 3]
    assert list(second) == [2, 3, 4, 5]
    logs = sorted(path.name for path in (attempts.directory / "output").glob("metrics_*.jsonl"))
    assert logs == ["metrics_1.jsonl", "metrics_2.jsonl"]
    reported = [json.loads(line) for line in (attempts.directory / "metrics.jsonl").read_text().splitlines()]
    assert {line["step"] for line in reported if "metrics" in line} == {0, 1, 2, 3, 4, 5}


def test_a_checkpoint_that_was_cut_short_is_removed_before_verl_stumbles_over_it(run, attempts):
    _, outcome, _ = run("halfway@3")
    assert outcome.kind is EndKind.CRASH
    assert (attempts.directory / "checkpoints" / "global_step_3").is_dir()
    steps, outcome, _ = run()
    assert outcome.kind is EndKind.FINISHED
    assert min(steps) == 2
    assert "removed checkpoint global_step_3" in (attempts.directory / "attempt_2.log").read_text()


def test_a_resume_that_trains_nothing_has_not_finished_although_it_exits_with_zero(run):
    run("oom@3")
    _, outcome, _ = run("epochs over")
    assert outcome.kind is EndKind.UNKNOWN
    assert "resumed after step 2 of 5 and ended without training" in outcome.message
    assert "total_epochs" in outcome.hint


def test_a_run_that_stops_early_with_exit_code_zero_has_not_finished(run):
    _, outcome, _ = run("exit@3")
    assert outcome.kind is EndKind.UNKNOWN
    assert "exit code 0) after step 2 of 5" in outcome.message


def test_a_run_that_hangs_is_ended(run):
    _, outcome, _ = run("hang@3", stall_s=12.0)
    assert (outcome.kind, outcome.last_step) == (EndKind.CRASH, 2)
    assert "ended as hung" in outcome.message


def test_the_console_stands_in_where_there_is_no_file(run):
    steps, outcome, _ = run("no file")
    assert outcome.kind is EndKind.FINISHED
    assert list(steps) == [0, 1, 2, 3, 4, 5]
    assert steps[5]["eval/reward"] == pytest.approx(5 / 8)


def test_fewer_gpus_than_verl_wants_are_refused_before_it_waits_for_them(run):
    steps, outcome, _ = run(overrides={"trainer.n_gpus_per_node": 4})
    assert steps == {}
    assert outcome.kind is EndKind.CONFIG
    assert "wants 4 GPUs (trainer.n_gpus_per_node), the trial has 2" in outcome.message


def test_nothing_of_a_trial_stays_in_the_temporary_directory(run):
    before = set(Path("/tmp").glob("verl-*"))
    run()
    assert set(Path("/tmp").glob("verl-*")) <= before


def test_a_verl_sees_nothing_of_the_ray_that_runs_the_trials(tmp_path):
    outer = {"RAY_ADDRESS": "10.0.0.1:6379", "RAY_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "3", "HOME": "/h"}
    made = environment(outer, "/tmp/verl-x", tmp_path / "log")
    assert made["RAY_ADDRESS"] == "local"
    assert made["RAY_TMPDIR"] == "/tmp/verl-x"
    assert "RAY_JOB_ID" not in made
    assert (made["CUDA_VISIBLE_DEVICES"], made["HOME"]) == ("3", "/h")


class NoRecord:
    def checkpoint(self, step, path):
        raise AssertionError("nothing new to announce")


@pytest.mark.parametrize(
    ("steps", "tracker", "start"),
    [
        ([], None, 0),
        ([2, 4], "4", 4),
        ([2, 4], "2", 2),
        ([2, 4], "", 2),
        ([2, 4], None, 2),
        ([4], "", 0),
        ([2], "9", 0),
    ],
)
def test_the_tracker_names_a_finished_checkpoint_or_is_put_right(tmp_path, steps, tracker, start):
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    for step in steps:
        (directory / f"global_step_{step}").mkdir()
    if tracker is not None:
        (directory / TRACKER).write_text(tracker)
    checkpoints = Checkpoints(tmp_path, NoRecord())
    assert checkpoints.start == start
    assert not checkpoints.look()
    left = (directory / TRACKER).read_text() if (directory / TRACKER).exists() else None
    assert left == (str(start) if start else None)
    assert {path.name for path in directory.glob("global_step_*")} == {f"global_step_{n}" for n in steps if n <= start}


def test_a_console_line_is_read_with_its_prefix_its_wrapped_numbers_and_its_odd_keys():
    line = "\x1b[36m(TaskRunner pid=9)\x1b[0m step:12 - actor/loss:np.float64(0.5) - val-core/a-b/acc/mean@4:0.25 - n:3"
    step, values = console_step(line)
    assert step == 12
    assert values == {"actor/loss": "np.float64(0.5)", "val-core/a-b/acc/mean@4": "0.25", "n": "3"}
    assert console_step("training step:3 of 12") is None


def test_validation_is_the_mean_over_the_sources_each_with_its_largest_sample():
    logged = {
        "val-core/math/acc/mean@1": 0.0,
        "val-core/math/acc/mean@8": 0.5,
        "val-core/openai/gsm8k/acc/mean@8": 1.0,
        "val-aux/math/reward/mean@8": 0.1,
        "val-aux/openai/gsm8k/reward/mean@8": 0.3,
        "val-aux/math/reward/best@8/mean": 9.0,
    }
    found = translate(logged)
    assert found["eval/accuracy"] == 0.75
    assert found["eval/reward"] == pytest.approx(0.2)
    assert translate({"val-core/x/acc/mean@1": 0.5})["eval/reward"] == 0.5
    assert translate({"val-core/x/reward/mean@1": 2.0}) == {"eval/reward": 2.0}


def test_the_first_source_of_a_metric_counts():
    assert translate({"actor/kl_loss": 0.1})["kl/actor_ref"] == 0.1
    assert translate({"actor/kl_loss": 0.1, "actor/reward_kl_penalty": 0.2})["kl/actor_ref"] == 0.2


class SeenOnce:
    """A program of which only one look is had: its last step and its checkpoint are found together."""

    def __init__(self, argv, env, cwd, *, on_line, on_look, stall_s):
        self.stopping = self.hung = False
        self.log, self.cwd, self.on_look = Path(env["VERL_FILE_LOGGER_PATH"]), cwd, on_look

    def touch(self):
        pass

    def run(self):
        self.log.write_text(json.dumps({"step": 5, "data": {"critic/score/mean": 0.5}}) + "\n")
        (self.cwd / "checkpoints" / "global_step_5" / "actor").mkdir(parents=True)
        (self.cwd / "checkpoints" / TRACKER).write_text("5")
        self.on_look()
        return 0


def test_a_checkpoint_that_is_seen_together_with_the_last_step_is_announced(tmp_path, monkeypatch):
    monkeypatch.setattr(verl, "Child", SeenOnce)
    own = {"notes": [], "env": {}, "command": ["python", "-m", "verl"], "workdir": "", "stall_s": None, "steps": 5}
    assert verl.run_verl({"backend": own, "trainer": {"n_gpus_per_node": 0}}, tmp_path) == 0
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 5]
    assert lines[1]["checkpoint"] == "checkpoints/global_step_5"

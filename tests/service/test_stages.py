"""Jobs in stages, driven on a virtual clock: what goes on from one stage to the next, and how a job ends in between."""

from __future__ import annotations

import textwrap
from contextlib import nullcontext

import pytest

from autotune.errors import InvalidSpaceError, NotFoundError
from autotune.execution.simulated import Failure, simulate
from autotune.search.types import EndKind
from autotune.service.driver import JobDriver
from autotune.service.staging import directory_of

SOURCE = textwrap.dedent("""
    name: staged
    trainer: {overrides: {data: digits, model: tiny}}
    stages:
      - name: alive
        search: {micro_batch_size_per_gpu: {choice: [8, 16, 32]}}
        objective: {metric: perf/peak_memory_gb, direction: minimize}
        sampler: {name: grid}
        budget: {trials: 3, parallel: 2, steps: 3}
        pass: max.perf/peak_memory_gb <= 20
      - name: fast
        search: {ppo_epochs: {int: [1, 4]}}
        objective: {metric: perf/tokens_per_s}
        budget: {trials: 4, steps: 4}
        start_from: [default, {ppo_epochs: 4}]
        pass: ["perf/tokens_per_s >= 1.3 * default", "std.reward/mean < 0.05"]
      - name: effect
        search: {lr: {float: [1e-5, 1e-3], log: true}}
        objective: {metric: eval/reward}
        budget: {trials: 3, steps: 6}
        start_from: [default, {lr: 1e-3}]
        pass: ["eval/reward >= 1.15 * default", "0.05 <= kl/actor_ref <= 0.12"]
""")


def curve(config, seed):
    """Memory grows with the micro-batch, speed with the epochs, reward and KL with the learning rate."""
    rows = config["trainer.ppo_micro_batch_size_per_gpu"]
    if rows > 16:
        yield Failure(kind=EndKind.OUT_OF_MEMORY, message="out of memory (simulated)")
    while True:
        lr = config["trainer.optim.lr"]
        yield (
            1.0,
            {
                "perf/peak_memory_gb": float(rows),
                "perf/tokens_per_s": 100.0 * config["trainer.ppo_epochs"],
                "reward/mean": 0.5,
                "eval/reward": 0.5 + 1000 * lr,
                "kl/actor_ref": 100 * lr,
            },
        )


class Simulated(JobDriver):
    """A driver whose trials run on the service's own virtual clock, and which nobody observes."""

    curve = staticmethod(curve)

    def _run_trials(self, coordinator, resolved, study):
        budget = resolved.space.budget
        clock = self._service.clock
        simulate(coordinator, self.curve, parallel=budget.parallel, clock=clock, steps=resolved.steps)

    def _ray(self, resolved):
        return nullcontext()

    def _observers(self, job, part, study):
        return {}


@pytest.fixture
def run(service):
    def start(source=SOURCE, driver=Simulated):
        view, _ = service.submit(source, "space.yaml")
        return again(view.id, driver)

    def again(job, driver=Simulated):
        with service.store.begin() as work:
            lease = work.jobs.lease(job, "tester/0/x", service.clock.now(), 1e6)
        driver(service, lease).run()
        return service.job(job)

    start.again = again
    return start


def test_each_stage_begins_where_the_one_before_has_ended(run, service):
    job = run()
    assert job.state == "completed"
    assert [(stage.name, stage.state) for stage in job.stages] == [
        ("alive", "passed"),
        ("fast", "passed"),
        ("effect", "passed"),
    ]
    best = service.best(job.id)
    assert (best.trial.stage, best.trial.number) == ("effect", 1)
    assert set(best.overrides) >= {
        "trainer.ppo_micro_batch_size_per_gpu=8",
        "trainer.ppo_epochs=4",
        "trainer.optim.lr=0.001",
        "trainer.total_steps=6",
    }


def test_trials_are_numbered_within_their_stage_and_lie_in_its_directory(run, service):
    job = run()
    assert (job.stage, job.budget_trials, sum(job.trials.values())) == ("effect", 10, 10)
    assert [trial.number for trial in service.trials(job.id).items] == [0, 1, 2]
    alive = service.trials(job.id, stage="alive").items
    assert sorted((trial.params["trainer.ppo_micro_batch_size_per_gpu"], trial.state) for trial in alive) == [
        (8, "completed"),
        (16, "completed"),
        (32, "infeasible"),
    ]
    assert alive[1].directory.endswith(f"{job.id}/stages/alive/trials/0001")
    assert service.trial(job.id, 0, stage="fast").last_step == 4
    assert len(service.curves(job.id, ["perf/tokens_per_s"], stage="fast")) == 4


def test_the_criteria_are_kept_with_the_numbers_that_decided(run, service):
    job = run()
    fast = job.stages[1]
    assert [check.holds for check in fast.checks] == [True, True]
    assert fast.checks[0].numbers == {"perf/tokens_per_s": 400.0, "default": 100.0}
    ends = [event for event in service.events(job.id) if event.kind == "stage.end"]
    assert [event.stage for event in ends] == ["alive", "fast", "effect"]
    assert "stage fast passed with trial 1; perf/tokens_per_s >= 1.3 * default holds" in ends[1].text


def test_a_stage_that_finds_nothing_alive_fails_the_job_with_the_reason_and_keeps_what_was_measured(run, service):
    job = run(SOURCE.replace("choice: [8, 16, 32]", "choice: [32, 64]"))
    assert job.state == "failed"
    assert job.error.kind == "stage_failed"
    assert job.error.message == "stage alive found nothing: no trial completed within the constraints."
    assert "out of memory (simulated)" in job.error.hint
    assert [stage.state for stage in job.stages] == ["failed", "queued", "queued"]
    assert {trial.state for trial in service.trials(job.id).items} == {"infeasible"}


def test_a_missed_criterion_fails_the_job_with_its_numbers(run):
    job = run(SOURCE.replace("1.3 * default", "5 * default"))
    assert (job.state, job.stage) == ("failed", "fast")
    assert "perf/tokens_per_s >= 5 * default does not hold" in job.error.message
    assert "perf/tokens_per_s = 400" in job.error.message
    assert "on_fail: continue" in job.error.hint


def test_a_stage_may_be_missed_when_the_file_says_so(run):
    job = run(
        SOURCE.replace("1.3 * default", "5 * default").replace(
            "  - name: fast", "  - name: fast\n    on_fail: continue"
        )
    )
    assert (job.state, job.stages[1].state, job.stages[2].state) == ("completed", "failed", "passed")


def test_a_driver_that_takes_over_goes_on_with_the_stage_that_was_interrupted(run, service):
    class Dies(Simulated):
        def _run_trials(self, coordinator, resolved, study):
            if study.title == "fast":
                raise SystemExit("killed")
            super()._run_trials(coordinator, resolved, study)

    with pytest.raises(SystemExit):
        run(driver=Dies)
    (job,) = service.jobs().items
    before = service.trials(job.id, stage="alive").items
    service.clock.advance(1e7)
    assert service.requeue_abandoned() == [job.id]
    after = run.again(job.id)
    assert after.state == "completed"
    assert service.trials(job.id, stage="alive").items == before
    assert [event.text for event in service.events(job.id) if event.kind == "stage.begin"] == [
        "stage alive begins",
        "stage fast begins",
        "stage effect begins",
    ]


def test_a_stopped_job_completes_with_the_stage_it_was_at(run, service):
    class Stops(Simulated):
        def _run_trials(self, coordinator, resolved, study):
            def stopped(config, seed):
                if study.title == "fast" and coordinator.closing is None:
                    self._service.stop(self._lease.job)
                    self._poll(coordinator)
                yield from curve(config, seed)

            self.curve = stopped
            super()._run_trials(coordinator, resolved, study)

    job = run(driver=Stops)
    assert (job.state, job.stage) == ("completed", "fast")
    assert [stage.state for stage in job.stages] == ["passed", "failed", "queued"]
    assert service.best(job.id).trial.source == "default"


def test_the_best_few_of_a_small_model_are_confirmed_on_the_large_one(run, service):
    text = textwrap.dedent("""
        name: proxy
        trainer: {overrides: {data: digits, model: tiny, micro_batch_size_per_gpu: 8}}
        stages:
          - name: proxy
            search: {lr: {float: [1e-5, 1e-3], log: true}, ppo_epochs: {int: [1, 4]}}
            objective: {metric: eval/reward}
            budget: {trials: 6, steps: 2}
            carry: {as: start, top: 2, scale: {lr: 0.5}, drop: [ppo_epochs]}
          - name: target
            trainer: {overrides: {model.num_layers: 4}}
            objective: {metric: eval/reward}
            budget: {trials: 3, steps: 2}
            start_from: [default]
    """)
    job = run(text)
    proxy = sorted(service.trials(job.id, stage="proxy").items, key=lambda trial: -trial.value)
    target = service.trials(job.id).items
    assert [trial.source for trial in target] == ["default", *(f"carried-{trial.number}" for trial in proxy[:2])]
    for early, late in zip(proxy, target[1:], strict=False):
        assert late.params["trainer.optim.lr"] == pytest.approx(early.params["trainer.optim.lr"] / 2)
        assert late.params["trainer.ppo_epochs"] == target[0].params["trainer.ppo_epochs"]


def test_an_unknown_stage_names_those_there_are(run, service):
    job = run()
    with pytest.raises(NotFoundError, match="its stages are alive, fast, effect") as caught:
        service.trials(job.id, stage="efect")
    assert "'effect'" in caught.value.hint


def test_a_plan_shows_every_stage_and_the_cost_of_all(service):
    plan = service.plan(SOURCE, "space.yaml")
    assert [stage.name for stage in plan.stages] == ["alive", "fast", "effect"]
    assert (plan.trials, plan.max_steps) == (10, 3 * 3 + 4 * 4 + 3 * 6)
    assert plan.stages[0].carry == "the winner's values are fixed"
    assert plan.stages[2].carry == ""
    assert plan.stages[1].plan.parameters[0].path == "trainer.ppo_epochs"


def test_all_that_the_trainer_does_not_know_is_told_for_all_stages_at_once(service):
    text = SOURCE.replace("max.perf/peak_memory_gb", "max.perf/peak_memry_gb").replace(
        "ppo_epochs: {int", "ppo_epoch: {int"
    )
    with pytest.raises(InvalidSpaceError) as caught:
        service.plan(text.replace(", {ppo_epochs: 4}", ""), "space.yaml")
    found = {problem.path: problem for problem in caught.value.problems}
    assert found["stages[0].pass"].line == 10
    assert "'perf/peak_memory_gb'" in found["stages[0].pass"].hint
    assert found["stages[1].search.ppo_epoch"].line == 12


def test_a_mistake_in_what_the_stages_share_is_told_once_at_its_place(service):
    with pytest.raises(InvalidSpaceError) as caught:
        service.plan(SOURCE.replace("model: tiny}", "model: tiny, model.hiden_size: 8}"), "space.yaml")
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("trainer.overrides.model.hiden_size", 3)


def test_a_longer_stage_goes_on_from_the_checkpoint_of_a_configuration_already_tried(run, service):
    """The same two configurations, first for three steps and then for eight: the three are not run again."""
    text = textwrap.dedent("""
        name: longer
        trainer: {overrides: {data: digits, model: tiny, micro_batch_size_per_gpu: 8}}
        stages:
          - name: short
            search: {lr: {float: [1e-5, 1e-3], log: true}}
            objective: {metric: eval/reward}
            budget: {trials: 2, steps: 3}
            start_from: [default, {lr: 1e-3}]
            carry: {as: start, top: 2}
          - name: long
            objective: {metric: eval/reward}
            budget: {trials: 2, steps: 8}
    """)

    class Writes(Simulated):
        """Leaves the checkpoint of a trial's last step where a trainer would."""

        def _run_trials(self, coordinator, resolved, study):
            super()._run_trials(coordinator, resolved, study)
            directory = directory_of(self._settings.job_dir(self._lease.job), study)
            for trial in coordinator.trials.values():
                (directory / f"trials/{trial.number:04d}/checkpoints/step_{trial.last_step}").mkdir(parents=True)

    job = run(text, driver=Writes)
    assert job.state == "completed"
    trials = service.trials(job.id).items
    assert [trial.last_step for trial in trials] == [8, 8]
    assert sorted(trial.cost_s for trial in trials) == [5.0, 5.0]
    assert all(c.steps == list(range(1, 9)) for c in service.curves(job.id, ["eval/reward"]))
    texts = [event.text for event in service.events(job.id) if event.stage == "long" and "goes on from" in event.text]
    assert sorted(texts) == [
        "trial 0 started; it goes on from step 3 of trial 1 of stage short",
        "trial 1 started; it goes on from step 3 of trial 0 of stage short",
    ]


def test_a_pruner_that_begins_after_the_steps_of_the_budget_is_told(service):
    text = SOURCE.replace(
        "budget: {trials: 4, steps: 4}", "budget: {trials: 4, steps: 4}\n    prune: [{asha: {min_steps: 4}}]"
    )
    with pytest.raises(InvalidSpaceError) as caught:
        service.plan(text, "space.yaml")
    (problem,) = caught.value.problems
    assert problem.path == "stages[1].prune[0].asha.min_steps"
    assert "a trial has 4 steps" in problem.message

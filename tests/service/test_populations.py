"""What a population asks of its backend, and a whole one through the store."""

from __future__ import annotations

import textwrap
from contextlib import nullcontext

import pytest

from autotune.errors import InvalidSpaceError
from autotune.execution.simulated import simulate
from autotune.service.driver import JobDriver
from autotune.service.spaces import resolve_space

SOURCE = textwrap.dedent("""
    name: population
    trainer: {overrides: {data: digits, model: tiny}}
    search:
      lr: {float: [1e-5, 1e-3], log: true}
    objective: {metric: eval/reward}
    sampler: {name: random}
    strategy: {pbt: {interval: 4}}
    budget: {trials: 4, parallel: 2, steps: 12}
""")


def problems(source):
    with pytest.raises(InvalidSpaceError) as caught:
        resolve_space(source, "space.yaml")
    return "\n".join(str(problem) for problem in caught.value.problems)


def test_what_acts_anew_in_every_step_may_change():
    searched = (
        "kl_coef: {float: [1e-3, 1e-1], log: true}\n  clip_ratio: {float: [0.1, 0.3]}\n  ppo_epochs: {int: [1, 4]}"
    )
    assert resolve_space(SOURCE.replace("search:\n", f"search:\n  {searched}\n"), "space.yaml").space.population


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("search:\n", "search:\n  micro_batch_size_per_gpu: {choice: [8, 16]}\n"), ["cannot change", "overrides"]),
        (("search:\n", "search:\n  trainer.optim.warmup_steps: {int: [0, 4]}\n"), ["warmup_steps cannot change"]),
        (("model: tiny}", "model: tiny, trainer.save_best: eval/reward}"), ["trainer.save_best", "null"]),
        (("steps: 12", "steps: 4"), ["interval of 4", "4 steps of a trial"]),
    ],
)
def test_what_a_run_cannot_change_when_it_goes_on_is_refused(change, words):
    told = problems(SOURCE.replace(*change))
    assert all(word in told for word in words), told


def test_an_adaptive_penalty_keeps_its_coefficient():
    adaptive = SOURCE.replace("model: tiny}", "model: tiny, algorithm.kl_ctrl.type: adaptive}")
    told = problems(adaptive.replace("search:\n", "search:\n  kl_coef: {float: [1e-3, 1e-1], log: true}\n"))
    assert "adaptive KL penalty goes on with the coefficient" in told


def test_other_backends_are_refused():
    source = textwrap.dedent("""
        name: population
        trainer:
          backend: command
          command: "python -c pass --lr={lr}"
          parameters: {lr: 0.1}
          metrics: {read: jsonl, names: [loss]}
          steps: 12
        search: {lr: {float: [0.01, 1.0]}}
        objective: {metric: loss, direction: minimize}
        strategy: {pbt: {interval: 4}}
        budget: {trials: 4}
    """)
    assert "'command' cannot go on from another trial's checkpoint" in problems(source)


class Simulated(JobDriver):
    """A driver whose trials run on the service's own virtual clock, and which nobody observes."""

    def _run_trials(self, coordinator, resolved, study):
        def curve(config, _):
            for step in range(1, 13):
                yield 1.0, {"eval/reward": step * config["trainer.optim.lr"]}

        clock, parallel = self._service.clock, resolved.space.budget.parallel
        simulate(coordinator, curve, parallel=parallel, clock=clock, steps=resolved.steps)

    def _ray(self, resolved):
        return nullcontext()

    def _observers(self, job, part, study):
        return {}


def test_a_population_is_kept_in_the_record_with_the_schedule_of_every_trial(service):
    view, _ = service.submit(SOURCE, "space.yaml")
    with service.store.begin() as work:
        lease = work.jobs.lease(view.id, "tester/0/x", service.clock.now(), 1e6)
    Simulated(service, lease).run()
    assert service.job(view.id).state == "completed"
    trials = service.trials(view.id).items
    assert [(trial.state, trial.last_step) for trial in trials] == [("completed", 12)] * 4
    exploits = [event for event in service.events(view.id) if event.kind == "trial.exploited"]
    assert 1 <= len(exploits) <= 2
    last = {event.trial: event.data for event in exploits}
    for number, data in last.items():
        assert trials[number].params == data["after"]
        assert trials[number].source == f"pbt-{data['from']}@{data['step']}"
    best = service.best(view.id)
    assert f"trainer.optim.lr={best.trial.params['trainer.optim.lr']}" in best.overrides

"""What preflight refuses is infeasible before anything is launched, and the advice reads what was stored."""

import pytest

from autotune.errors import NotFoundError
from autotune.search.book import MemoryBook
from autotune.search.coordinator import Coordinator
from autotune.search.types import Done
from autotune.service.checking import TrialCheck
from autotune.service.spaces import resolve_space
from autotune.settings import Settings
from autotune.states import TrialState

ON_A_GPU = "resources: {gpus: 1}\n"


def coordinator_of(resolved, settings):
    return Coordinator(
        resolved.space,
        resolved.base,
        MemoryBook(),
        fence="f",
        total_steps=resolved.steps,
        check=TrialCheck(resolved.space, settings),
        seed_path=resolved.seed_path,
    )


def test_a_trial_that_cannot_fit_is_infeasible_and_nothing_is_launched(source, tmp_path):
    resolved = resolve_space(source + ON_A_GPU, "space.yaml")
    coordinator = coordinator_of(resolved, Settings(home=tmp_path, gpu_memory_gib=0.5))
    assert isinstance(coordinator.next_trial(0.0), Done)
    trials = list(coordinator.trials.values())
    assert len(trials) == 4
    assert {trial.state for trial in trials} == {TrialState.INFEASIBLE}
    assert all(trial.attempt is None and "needs about" in trial.error_message for trial in trials)
    assert all(trial.error_hint for trial in trials)


def test_with_room_the_same_trial_is_launched(source, tmp_path):
    resolved = resolve_space(source + ON_A_GPU, "space.yaml")
    coordinator = coordinator_of(resolved, Settings(home=tmp_path, gpu_memory_gib=24))
    assert not isinstance(coordinator.next_trial(0.0), Done)


def test_the_plan_shows_the_memory_and_warns_of_what_would_be_refused(service, source):
    plan = service.plan(source, "space.yaml")
    assert plan.memory.device == "cpu"
    assert plan.memory.peak_gib == pytest.approx(sum(plan.memory.parts.values()))
    small = service.settings.model_copy(update={"gpu_memory_gib": 0.5})
    service.settings = small
    warned = service.plan(source + ON_A_GPU, "space.yaml").warnings
    assert any(warning.startswith("The default configuration would not be launched: ") for warning in warned)


def test_a_fixed_port_for_trials_side_by_side_is_warned_of(service, source):
    fixed = source.replace("model: tiny}", "model: tiny, system.distributed.master_port: 29500}")
    assert any("same port" in warning for warning in service.plan(fixed, "space.yaml").warnings)


def test_advice_reads_the_stored_curves(service, source, drive):
    long = source.replace("steps: 4", "steps: 12").replace("kl_ceiling: {above: 0.4", "kl_ceiling: {above: 9")
    job, _ = service.submit(long, "space.yaml")
    drive(service, job.id)
    found = service.advice(job.id)
    # The driver of these tests reports a KL of 0.12 for each PPO epoch.
    high = {advice.trial for advice in found if advice.rule == "kl_too_high"}
    epochs = {trial.number: trial.params["trainer.ppo_epochs"] for trial in service.trials(job.id).items}
    assert high == {number for number, count in epochs.items() if 0.12 * count > 0.15}
    assert high
    one = min(high)
    assert service.advice(job.id, one) == [advice for advice in found if advice.trial == one]
    with pytest.raises(NotFoundError):
        service.advice(job.id, 99)

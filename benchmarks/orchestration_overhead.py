"""How many trials that do nothing can be run in a second, against plain Ray Tune with its `OptunaSearch`.

Both run on the same local Ray, four trials at a time, with TPE and an SQLite study, in alternating rounds. Ours starts
a process group for each trial, writes every event to its own database and mirrors the study to Optuna; Ray Tune starts
an actor for each trial. A trial of ours is a process of its own that reads a file and writes two.

A long job of ours shows whether a trial costs the same at its end as at its beginning. On the same Ray the command line
then launches a PPO run of the built-in model three times; the first one finds no fork server.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Target, finish, parser, progress, spread

PARALLEL = 4
LAUNCHES = 3
SPACE = """
name: first-step
trainer: {backend: native, config: config, overrides: {data: digits, model: tiny, trainer.test_freq: 0}}
resources: {cpus: 1, gpus: 0}
search:
  trainer.optim.lr: {float: [1e-4, 1e-3], log: true}
objective: {metric: reward/mean, direction: maximize}
budget: {trials: 1, parallel: 1, steps: 2}
"""


def ours(directory: Path, trials: int, seed: int) -> float:
    """Runs a job of trials that do nothing; returns trials per second, from the first launch to the last end."""
    ended = job_of_nothing(directory, trials, seed)
    return trials / (ended[-1] - ended[0])


def growth(directory: Path, trials: int) -> dict[str, float]:
    """Trials per second in the first and in the last fifth of one long job."""
    ended = job_of_nothing(directory, trials, seed=0)
    fifth = trials // 5
    # The first is the launch of the first trial: one more than there are trials.
    first, last = fifth / (ended[fifth] - ended[0]), fifth / (ended[-1] - ended[-1 - fifth])
    return {"trials": trials, "first_fifth_per_s": first, "last_fifth_per_s": last, "ratio": last / first}


def job_of_nothing(directory: Path, trials: int, seed: int) -> list[float]:
    """Runs a job of trials that do nothing; returns when the first began, and when each ended, in order."""
    from autotune.clock import SystemClock
    from autotune.execution.ray_tune import run_on_ray
    from autotune.search.coordinator import Coordinator
    from autotune.service.publishing import PublishingBook
    from autotune.spec.types import (
        Budget,
        FloatRange,
        Objective,
        Parameter,
        Resources,
        Retry,
        SamplerSpec,
        Space,
        TrainerSpec,
    )
    from autotune.states import JobState
    from autotune.store import NewJob, SqlBook, Store
    from autotune.store.optuna_mirror import OptunaMirror

    search = {path: Parameter(path=path, domain=FloatRange(low=0.0, high=1.0)) for path in ("x", "y")}
    resources = Resources(cpus=0.25)
    space = Space(
        name="nothing",
        trainer=TrainerSpec(backend="benchmarks.nothing_trial:BACKEND"),
        resources=resources,
        search=search,
        objective=Objective(metric="eval/reward"),
        sampler=SamplerSpec(seed=seed),
        budget=Budget(trials=trials, parallel=PARALLEL, steps=1),
        retry=Retry(),
    )
    url = f"sqlite:///{directory / 'autotune.db'}"
    store = Store(url)
    store.migrate()
    with store.begin() as work:
        job = work.jobs.add(NewJob(name="nothing", document={}), time.time())
        lease = work.jobs.lease(job.id, "benchmark", time.time(), 3600.0)
        study = work.jobs.studies(job.id)[0]
    book = PublishingBook(
        SqlBook(store, study.id, lease),
        {"mirror": lambda: OptunaMirror(url, study.name, objective=space.objective, parameters=search, steps=1)},
    )
    base = {"x": 0.5, "y": 0.5, "steps": 1, "seed": 0}
    coordinator = Coordinator(space, base, book, fence="benchmark", total_steps=1)
    run_on_ray(
        coordinator,
        backend=space.trainer.backend,
        job_dir=directory / "job",
        resources=resources,
        parallel=PARALLEL,
        steps=1,
        grace_s=5.0,
        address=None,
        clock=SystemClock(),
        on_idle=lambda: None,
    )
    book.close(coordinator.best(), JobState.COMPLETED, 60.0)
    store.close()
    ended = [trial for trial in coordinator.trials.values() if trial.value is not None]
    if len(ended) != trials:
        raise RuntimeError(f"{len(ended)} of {trials} trials completed")
    return [min(trial.started_at or 0.0 for trial in ended), *sorted(trial.ended_at or 0.0 for trial in ended)]


def first_step(directory: Path, address: str) -> float:
    """Seconds from `autotune launch` to the end of the first training step, on a Ray that is up."""
    (directory / "space.yaml").write_text(SPACE)
    home = Path(os.environ.get("AUTOTUNE_HOME") or Path.home() / ".autotune") / "cache"
    if home.is_dir():  # the weights of the built-in model, which are made once for a person
        (directory / "home").mkdir()
        (directory / "home" / "cache").symlink_to(home)
    environment = {**os.environ, "AUTOTUNE_HOME": str(directory / "home"), "AUTOTUNE_RAY_ADDRESS": address}
    began = time.time()
    command = [sys.executable, "-m", "autotune.cli.main", "launch", str(directory / "space.yaml")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the launch failed: {done.stderr[-2000:]}")
    (metrics,) = (directory / "home").glob("jobs/*/trials/*/metrics.jsonl")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return min(line["time"] for line in lines if line.get("step") == 1 and "metrics" in line) - began


def plain_ray_tune(directory: Path, trials: int, seed: int) -> float:
    """Runs the same with Ray Tune's own searcher; returns trials per second, from the first start to the last end."""
    import optuna
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    def nothing(config: dict[str, float]) -> None:
        tune.report({"reward": config["x"] - config["y"]})

    storage = optuna.storages.RDBStorage(f"sqlite:///{directory / 'optuna.db'}")
    tuner = tune.Tuner(
        tune.with_resources(nothing, {"CPU": 0.25}),
        tune_config=tune.TuneConfig(
            metric="reward",
            mode="max",
            num_samples=trials,
            max_concurrent_trials=PARALLEL,
            search_alg=OptunaSearch(
                space={
                    "x": optuna.distributions.FloatDistribution(0, 1),
                    "y": optuna.distributions.FloatDistribution(0, 1),
                },
                study_name="plain",
                storage=storage,
                metric="reward",
                mode="max",
                seed=seed,
            ),
        ),
        run_config=tune.RunConfig(storage_path=str(directory / "ray"), verbose=0),
    )
    tuner.fit()
    study = optuna.load_study(study_name="plain", storage=storage)
    done = [t for t in study.trials if t.datetime_start is not None and t.datetime_complete is not None]
    if len(done) != trials:
        raise RuntimeError(f"{len(done)} of {trials} trials completed")
    seconds = max(t.datetime_complete for t in done) - min(t.datetime_start for t in done)
    return trials / seconds.total_seconds()


def main() -> int:
    """Runs the benchmark."""
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--rounds", type=int, help="rounds against plain Ray Tune, ten minutes each (default 2)")
    chosen = command.parse_args()
    trials, many = (20, 40) if chosen.quick else (200, 2000)
    rounds = chosen.rounds or (1 if chosen.quick else 2)
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AIR_NEW_OUTPUT="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1")
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    import optuna
    import ray

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ray.init(
        num_cpus=PARALLEL, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        _node_ip_address="127.0.0.1",
    )  # fmt: skip
    rates: dict[str, list[float]] = {"autotune": [], "plain Ray Tune": []}
    for number in range(rounds):
        for name, run in (("autotune", ours), ("plain Ray Tune", plain_ray_tune)):
            # Whatever a library prints belongs on stderr: stdout is for the document.
            with _directory() as directory, contextlib.redirect_stdout(sys.stderr):
                rates[name].append(run(directory, trials, seed=number))
            progress(f"round {number + 1} of {rounds}: {name} {rates[name][-1]:.2f} trials/s")
    with _directory() as directory, contextlib.redirect_stdout(sys.stderr):
        grown = growth(directory, many)
    progress(
        f"{many} trials: {grown['first_fifth_per_s']:.2f} trials/s at first, {grown['last_fifth_per_s']:.2f} at last"
    )
    launches = []
    for number in range(LAUNCHES):
        with _directory() as directory:
            launches.append(first_step(directory, ray.get_runtime_context().gcs_address))
        progress(f"launch {number + 1} of {LAUNCHES}: {launches[-1]:.1f} s to the first step")
    ray.shutdown()
    ratio = [a / b for a, b in zip(*rates.values(), strict=True)]
    results = {
        "trials": trials,
        "parallel": PARALLEL,
        "trials_per_s": {name: spread(values) for name, values in rates.items()},
        "ratio": spread(ratio),
        "growth": grown,
        "launch_to_first_step_s": {"cold": launches[0], "warm": spread(launches[1:])},
    }
    warm = statistics.median(launches[1:])
    targets = [
        Target(name="trials/s of autotune over plain Ray Tune", value=statistics.median(ratio), target=1.5),
        Target(name=f"trials/s at the end of {many} trials over the beginning", value=grown["ratio"], target=0.8),
        Target(name="launch to first step on a Ray that is up (s)", value=warm, target=10.0, at_least=False),
    ]
    return finish("orchestration_overhead", chosen, results, targets, ["ray", "optuna", "sqlalchemy", "torch"])


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="overhead-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

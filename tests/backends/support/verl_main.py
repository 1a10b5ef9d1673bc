"""Behaves like verl's main program: the same arguments, log file, console lines, checkpoints and ways to fail.

It composes the real configuration with Hydra and trains nothing: the reward follows from the learning rate. VERL_MISHAP
in its environment ("oom@3") says what goes wrong and at which step; VERL_MISHAPS says it by learning rate, in JSON, for
a first run and for one that resumes: {"3e-06": ["halfway@3", "epochs over"]}. Above 1e-4 it always goes wrong.
"""

import json
import math
import os
import sys
import threading
from pathlib import Path

import hydra
from omegaconf import OmegaConf


class FileLogger:
    """As verl's: the file is emptied when it is opened, and a value that is not finite is written as null."""

    def __init__(self):
        self.path = Path(os.environ["VERL_FILE_LOGGER_PATH"])
        self.path.write_bytes(b"")

    def log(self, data, step):
        safe = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in data.items()}
        with self.path.open("ab") as file:
            file.write(json.dumps({"step": step, "data": safe}).encode() + b"\n")


class Console:
    def log(self, data, step):
        values = [f"{key}:np.float64({value!r})" if "/" in key else f"{key}:{value}" for key, value in data.items()]
        print("\x1b[36m(TaskRunnerV1 pid=17)\x1b[0m " + " - ".join([f"step:{step}", *values]), flush=True)


def planned(config, start):
    by_rate = json.loads(os.environ.get("VERL_MISHAPS", "{}"))
    first, *later = by_rate.get(f"{config.actor_rollout_ref.actor.optim.lr:g}", [os.environ.get("VERL_MISHAP", "")])
    return later[0] if start and later else first


def mishap(config, step, plan):
    what, _, at = plan.partition("@")
    if config.actor_rollout_ref.actor.optim.lr > 1e-4:
        what, at = "nonfinite", "2"
    return what if at and step == int(at) else ""


def resume(config):
    directory = Path(config.trainer.default_local_dir)
    tracker = directory / "latest_checkpointed_iteration.txt"
    if config.trainer.resume_mode == "disable" or not tracker.exists():
        return 0
    step = int(tracker.read_text())
    assert (directory / f"global_step_{step}" / "actor" / "model_world_size_1_rank_0.pt").exists()
    print(f"Resuming from {directory}/global_step_{step}, setting global step to {step}")
    return step


def save(config, step, *, finish=True):
    directory = Path(config.trainer.default_local_dir)
    actor = directory / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True, exist_ok=True)
    (actor / "model_world_size_1_rank_0.pt").write_text(str(step))
    if finish:
        (directory / "latest_checkpointed_iteration.txt").write_text(str(step))


def fail(what, config, step):
    if what == "oom":
        raise RuntimeError("ray::WorkerDict.actor_rollout_update_actor() CUDA out of memory. Tried to allocate 4 GiB")
    if what == "hang":
        threading.Event().wait(60)
    if what == "exit":
        sys.exit(0)
    if what == "halfway":
        save(config, step, finish=False)
        os._exit(1)
    if what == "nonfinite":
        print("(WorkerDict pid=18) WARN: grad_norm is not finite: nan", flush=True)


def metrics(config, step, what):
    lr = config.actor_rollout_ref.actor.optim.lr
    quality = 1 / (1 + abs(math.log10(lr) - math.log10(2e-6)))
    reward = quality * step / (step + 3)
    data = {
        "training/global_step": step,
        "critic/score/mean": reward,
        "critic/rewards/mean": reward - 0.01,
        "actor/pg_loss": 0.1,
        "actor/entropy": 0.5,
        "actor/grad_norm": math.nan if what == "nonfinite" else 0.3,
        "actor/lr": lr,
        "response_length/mean": 100.0,
        "perf/throughput": 1000.0,
        "note": "a text",
    }
    if config.algorithm.use_kl_in_reward:
        data["actor/reward_kl_penalty"] = 0.02 / config.algorithm.kl_ctrl.kl_coef * 1e-3
        data["actor/reward_kl_penalty_coeff"] = config.algorithm.kl_ctrl.kl_coef
    return data


def validation(config, step):
    reward = metrics(config, step, "")["critic/score/mean"]
    return {"val-core/openai/gsm8k/acc/mean@1": reward, "val-aux/openai/gsm8k/reward/mean@1": reward}


@hydra.main(config_path="config", config_name="ppo_trainer", version_base=None)
def main(config):
    OmegaConf.resolve(config)
    assert os.environ["RAY_ADDRESS"] == "local"
    assert Path(os.environ["RAY_TMPDIR"]).is_dir()
    loggers = {"file": FileLogger, "console": Console}
    start = resume(config)
    plan = planned(config, start)
    quiet = plan == "no file"
    active = [loggers[name]() for name in config.trainer.logger if name in loggers and not (quiet and name == "file")]

    def log(data, step):
        for logger in active:
            logger.log(data, step)

    if config.trainer.val_before_train:
        log(validation(config, start), start)
    if plan == "epochs over" and start:
        return
    total = config.trainer.total_training_steps
    for step in range(start + 1, total + 1):
        what = mishap(config, step, plan)
        fail(what, config, step)
        data = metrics(config, step, what)
        if config.trainer.test_freq > 0 and (step == total or step % config.trainer.test_freq == 0):
            data.update(validation(config, step))
        if config.trainer.save_freq > 0 and (step == total or step % config.trainer.save_freq == 0):
            save(config, step)
        log(data, step)


if __name__ == "__main__":
    main()

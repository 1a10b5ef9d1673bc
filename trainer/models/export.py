"""Export the actor of a run: `python -m trainer.models.export RUN_DIR --out DIR`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trainer.config import ConfigError, ConfigProblem, build
from trainer.configfile import read_config
from trainer.console import say
from trainer.failures import TrainerError


def main(arguments: Sequence[str] | None = None) -> int:
    """Export from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.models.export",
        description="Write the actor of a run in Hugging Face format, adapters merged.",
    )
    parser.add_argument("run_dir", type=Path, help="a run's directory: config.yaml and checkpoints/")
    parser.add_argument("--out", type=Path, required=True, help="directory to write, which must not exist yet")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--step", type=int, help="the checkpoint's step (default: the newest)")
    which.add_argument("--best", action="store_true", help="the step that trainer.save_best kept")
    options = parser.parse_args(arguments)
    try:
        step = export(options.run_dir, options.out, _best_step(options.run_dir) if options.best else options.step)
    except (ConfigError, TrainerError, OSError) as error:
        say(f"error: {error}")
        return 1
    say(f"exported the actor after step {step}: {options.out}")
    return 0


def export(run_dir: Path, out: Path, step: int | None = None) -> int:
    """Write the actor of a checkpoint in Hugging Face format; `out` appears whole or not at all.

    Args:
        run_dir: A run's directory.
        out: Where to write; must not exist.
        step: Which checkpoint; None takes the newest.

    Returns:
        The step exported.

    Raises:
        ConfigError: There is no such checkpoint, `out` exists, or the run's configuration cannot be used.
    """
    import torch

    from trainer.data import load_prompts
    from trainer.distributed import complete_checkpoints, load_weights
    from trainer.models.build import build_actor, load_tokenizer
    from trainer.models.lora import merged
    from trainer.models.save import save_hf, write_note

    config = build(read_config(run_dir / "config.yaml"))
    steps = complete_checkpoints(run_dir)
    if out.exists():
        raise _refused(f"'{out}' exists", "name a directory that does not exist yet")
    if not steps or (step is not None and step not in steps):
        there = ", ".join(map(str, sorted(steps))) or "none"
        raise _refused(f"no checkpoint of step {step or 'any'} in '{run_dir}' (there: {there})", "see checkpoints/")
    chosen = max(steps) if step is None else step
    tokenizer = load_tokenizer(config)
    examples = load_prompts(config, tokenizer, announce=False).train if config.model.path == "tiny" else ()
    actor = build_actor(config, examples, tokenizer, torch.device("cpu"))
    load_weights(run_dir, chosen, "actor", actor)
    weights = dict(merged(actor, ((name, item.detach()) for name, item in actor.named_parameters())))
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        plain = build_actor(config, examples, tokenizer, torch.device("cpu"), adapters=False)
        save_hf(plain, weights, tokenizer, temporary)
        write_note(temporary, {"step": chosen, "model": config.model.path, "lora_rank": config.model.lora_rank})
        temporary.chmod(0o755)
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return chosen


def _best_step(run_dir: Path) -> int:
    from trainer.loop.best import read_best

    best = read_best(run_dir)
    if best is None:
        raise _refused(f"'{run_dir}' names no best checkpoint", "train with trainer.save_best, or give --step")
    return best.step


def _refused(message: str, hint: str) -> ConfigError:
    return ConfigError([ConfigProblem(path="", message=message, hint=hint)])


if __name__ == "__main__":
    sys.exit(main())

"""The real verl 0.9.1, fetched once without its dependencies and unpacked into a cache directory."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

VERSION = "0.9.1"
GOOD = {
    "trainer.total_steps": 50,
    "trainer.n_gpus_per_node": 2,
    "trainer.ppo_micro_batch_size_per_gpu": 4,
    "trainer.mini_batch_size": 64,
    "trainer.train_batch_size": 256,
    "model.path": "Qwen/Qwen2-7B-Instruct",
}
"""A small configuration that verl accepts."""
_IMITATION = Path(__file__).parent / "support" / "verl_main.py"


@functools.lru_cache(maxsize=1)
def unpacked() -> Path | str:
    """The directory that holds the package ``verl``, or why there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autotune-tests"
    target = cache / f"verl-{VERSION}"
    if (target / "verl" / "trainer" / "config" / "ppo_trainer.yaml").is_file():
        return target
    pip = shutil.which("pip") or shutil.which("pip3")
    if pip is None:
        return "pip is not installed"
    cache.mkdir(parents=True, exist_ok=True)
    fetched = cache / f"fetch-{os.getpid()}"
    command = [pip, "download", "--no-deps", "--only-binary=:all:", "-q", "-d", str(fetched), f"verl=={VERSION}"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        with zipfile.ZipFile(next(fetched.glob("verl-*.whl"))) as wheel:
            wheel.extractall(fetched / "tree")
        (fetched / "tree").replace(target)
    except (subprocess.SubprocessError, StopIteration, OSError) as error:
        if not target.is_dir():  # another process may have been faster
            return f"verl {VERSION} cannot be fetched: {error}"
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return target


def real_verl() -> Path:
    """The directory with the real package; skips the test where it cannot be had."""
    found = unpacked()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def interpreter(directory: Path, packages: Path) -> str:
    """An interpreter, like that of an environment of its own, which finds the packages of one directory."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def imitation(directory: Path, version: str = VERSION) -> str:
    """An interpreter whose verl has the real configuration and, for a main program, one that only behaves like it."""
    real = real_verl()
    packages = directory / "packages"
    trainer = packages / "verl" / "trainer"
    trainer.mkdir(parents=True)
    (packages / "verl" / "__init__.py").touch()
    (trainer / "__init__.py").touch()
    (trainer / "config").symlink_to(real / "verl" / "trainer" / "config")
    shutil.copy(_IMITATION, trainer / "main_ppo.py")
    information = packages / f"verl-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: verl\nVersion: {version}\n")
    return interpreter(directory, packages)


def without_a_key(directory: Path, version: str = "0.9.9") -> str:
    """An interpreter with another verl, which calls the key ``max_num_seqs`` of its rollout by another name."""
    python = imitation(directory, version=version)
    configs = directory / "packages" / "verl" / "trainer" / "config"
    copied = shutil.copytree(configs.resolve(), directory / "config")
    rollout = copied / "rollout" / "rollout.yaml"
    rollout.write_text(rollout.read_text().replace("max_num_seqs:", "max_sequences:"))
    configs.unlink()
    copied.rename(configs)
    return python

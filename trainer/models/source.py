"""Where pretrained weights lie, and whether they can be used; refused here, before anything large is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config import ConfigError, ConfigProblem, ModelConfig, nearest
from trainer.models.smollm2 import NAME as SMOLLM2
from trainer.models.smollm2 import smollm2_directory

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What `from_pretrained` needs to find a model.

    Attributes:
        key: The configuration key that named it, for messages.
        path: Directory, or name on the Hugging Face Hub.
        trust_remote_code: Whether Python code in the directory may run.
        allow: The configuration key that lets it run, for messages.
        kind: What it must be, for messages.
    """

    key: str
    path: str
    trust_remote_code: bool
    allow: str = "model.trust_remote_code"
    kind: str = "a causal language model"

    def refusal(self, message: str, hint: str) -> ConfigError:
        """The error that this model cannot be used."""
        return ConfigError([ConfigProblem(path=self.key, message=message, hint=hint)])


def actor_source(config: ModelConfig) -> Source:
    """Where the actor's weights lie.

    Raises:
        ConfigError: They are not there.
    """
    return _source("model.path", config.path, config)


def critic_source(config: ModelConfig) -> Source | None:
    """Where the critic's weights lie; None when they are the actor's.

    Raises:
        ConfigError: They are not there.
    """
    if config.critic_path is None:
        return None
    return _source("model.critic_path", config.critic_path, config)


def read_shape(source: Source) -> PretrainedConfig:
    """The model's own configuration, with every dropout off: PPO compares log-probabilities of equal networks.

    Raises:
        ConfigError: It cannot be read, or it needs code that may not run.
    """
    from transformers import AutoConfig

    shape = _guarded(
        source, lambda: AutoConfig.from_pretrained(source.path, trust_remote_code=source.trust_remote_code)
    )
    text = shape.get_text_config()
    for name, value in text.to_dict().items():
        if isinstance(value, float) and ("dropout" in name or name.endswith(("pdrop", "drop_rate"))):
            setattr(text, name, 0.0)
    return shape


def _guarded(source: Source, load: Callable[[], PretrainedConfig]) -> PretrainedConfig:
    try:
        return load()
    except Exception as error:  # transformers raises many kinds; each means that this model cannot be used
        text = " ".join(str(error).split())
        if "trust_remote_code" in text:
            message = f"'{source.path}' brings Python code of its own, which may not run"
            hint = f"read that code; if you trust it, set {source.allow}=true"
            raise source.refusal(message, hint) from error
        message = f"cannot load '{source.path}': {type(error).__name__}: {text[:300]}"
        raise source.refusal(message, f"it must be {source.kind} in Hugging Face format") from error


def classifier_source(key: str, path: str, *, trust_remote_code: bool) -> Source:
    """Where the weights of a reward model lie.

    Raises:
        ConfigError: They are not there.
    """
    allow = "reward.model.trust_remote_code"
    return _found(
        Source(key=key, path=path, trust_remote_code=trust_remote_code, allow=allow, kind="a sequence classifier")
    )


def _source(key: str, path: str, config: ModelConfig) -> Source:
    if path == SMOLLM2:
        return Source(key=key, path=str(smollm2_directory(key)), trust_remote_code=False)
    return _found(Source(key=key, path=path, trust_remote_code=config.trust_remote_code))


def _found(source: Source) -> Source:
    path = source.path
    directory = Path(path)
    if directory.is_dir():
        if not (directory / "config.json").is_file():
            there = ", ".join(sorted(item.name for item in directory.iterdir())[:6]) or "nothing"
            raise source.refusal(
                f"'{path}' holds no config.json (it holds {there})", "give a model in Hugging Face format"
            )
        return source
    if directory.exists() or path.count("/") != 1 or path.startswith((".", "/", "~")):
        hint = nearest(path, ("tiny", SMOLLM2)) if source.key.startswith("model.") else f"it must be {source.kind}"
        if not directory.is_absolute():
            hint += "; a trial runs in a directory of its own, so write a model's directory as an absolute path"
        raise source.refusal(f"there is no model directory '{path}'", hint)
    return source  # a name on the Hub, perhaps in the local cache: transformers looks for it

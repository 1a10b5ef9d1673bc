"""Low-rank adapters (Hu et al. 2021, arXiv:2106.09685): W + (alpha / rank) B A, of which only A and B are trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from trainer.config import ModelConfig

_ADAPTER = "default"


def add_adapters(model: torch.nn.Module, config: ModelConfig, seed: int) -> None:
    """Put an adapter beside every linear layer but the language-model head, in place; all else is frozen.

    B starts at zero, so the model computes what it did before. A is drawn from `seed` alone: every rank must start
    with the same.
    """
    from peft import LoraConfig, inject_adapter_in_model

    settings = LoraConfig(r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules="all-linear")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(settings, model, _ADAPTER)


class WithoutAdapters(torch.nn.Module):
    """The same network with its adapters off: the reference, without a second copy of the weights.

    Args:
        model: The network with adapters. It is called, not owned: its parameters are not this module's.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._model = (model,)  # in a tuple, so that it is no submodule

    def forward(self, *arguments: object, **named: object) -> object:
        """What the network computes without its adapters."""
        model = self._model[0]
        with adapters_off(model):
            return model(*arguments, **named)


@contextlib.contextmanager
def adapters_off(model: torch.nn.Module) -> Iterator[None]:
    """Leave the adapters out of every forward pass within.

    Only the switch that the forward pass reads is turned. peft's own context would also turn `requires_grad` off and
    on, which FSDP has read once and would not see again.
    """
    layers = _layers(model).values()
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def merged(model: torch.nn.Module, weights: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Weights under the names that they have without adapters, each adapter added to its layer.

    Args:
        model: The network, with or without adapters; tells the scales.
        weights: Its parameters, whole, in its order: an adapter's come after its layer's.
    """
    layers = _layers(model)
    held: dict[str, dict[str, Tensor]] = {}
    for name, tensor in weights:
        layer = next((path for path in _parents(name) if path in layers), None)
        if layer is None:
            yield name, tensor
            continue
        part = name[len(layer) + 1 :]
        if part == "base_layer.bias":
            yield f"{layer}.bias", tensor
            continue
        parts = held.setdefault(layer, {})
        parts[part] = tensor
        if len(parts) == 3:
            low, high = parts[f"lora_A.{_ADAPTER}.weight"], parts[f"lora_B.{_ADAPTER}.weight"]
            added = layers[layer].scaling[_ADAPTER] * (high.float() @ low.float())
            weight = parts["base_layer.weight"]
            fan_in_fan_out = getattr(layers[layer], "fan_in_fan_out", False)  # GPT-2 stores its weights transposed
            yield f"{layer}.weight", weight + (added.T if fan_in_fan_out else added).to(weight.dtype)
            del held[layer]


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _layers(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}

"""What `debug: true` shows on stderr: where memory sits and how large the gradient of each component is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from trainer.console import say
from trainer.distributed import whole
from trainer.loop.run import Run

_METRICS = ("perf/peak_memory_gb", "actor/grad_norm", "critic/grad_norm", "actor/loss", "critic/loss")


def gradient_norms(model: torch.nn.Module) -> dict[str, float]:
    """The norm of the gradient of each component: embeddings, every block, last norm, head. All ranks take part.

    Args:
        model: A network after its backward passes and before clipping.
    """
    squares: dict[str, float] = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            norm = float(whole(torch.linalg.vector_norm(parameter.grad)))
            component = _component(name)
            squares[component] = squares.get(component, 0.0) + norm**2
    return {component: math.sqrt(square) for component, square in squares.items()}


def memory_of(run: Run) -> dict[str, float]:
    """Memory of weights and optimizer states on this rank (MiB)."""
    held = {"reference": _mebibytes(run.reference.parameters())}
    for name, (model, optimizer) in run.trained.items():
        held[name] = _mebibytes(model.parameters())
        states = (value for state in optimizer.state.values() for value in state.values())
        held[f"{name}_optimizer"] = _mebibytes(value for value in states if isinstance(value, Tensor))
    return held


def show_debug(
    run: Run, step: int, metrics: Mapping[str, float], components: Mapping[str, Sequence[Mapping[str, float]]]
) -> None:
    """Losses, memory and gradient norms on stderr when `debug` is on.

    Args:
        run: The run.
        step: The step done.
        metrics: Its metrics.
        components: The gradient norms of each network's components in the updates of the step.
    """
    if not (run.world.is_main and run.config.debug):
        return
    say(f"debug {step}  " + "  ".join(f"{name} {metrics[name]:.6g}" for name in _METRICS if name in metrics))
    say(f"debug {step}  memory_mb  " + "  ".join(f"{name} {size:.3f}" for name, size in memory_of(run).items()))
    for network, norms in components.items():
        means = {name: sum(update[name] for update in norms) / len(norms) for name in norms[0]}
        say(f"debug {step}  {network} gradient  " + "  ".join(f"{name} {norm:.4g}" for name, norm in means.items()))


def _component(name: str) -> str:
    """`model.layers.3.mlp.up_proj.weight` is part of `layers.3`, `lm_head.weight` of `lm_head`."""
    parts = name.split(".")
    for place, part in enumerate(parts[:-1]):
        if part.isdigit():
            return ".".join(parts[max(0, place - 1) : place + 1])
    return parts[-2] if len(parts) > 1 else parts[0]


def _mebibytes(tensors: Iterable[Tensor]) -> float:
    local = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)
    return sum(tensor.nbytes for tensor in local) / 2**20

"""Rules on time and memory."""

from __future__ import annotations

from statistics import median

from autotune.search.advice.base import FEW, GUIDE, Advice, Case, Change, rounded

_SHORT = 0.5
_WORTH = 64  # tokens; padding of less costs next to nothing
_WAITING = 0.6
_MOST = 0.75


def padding_waste(case: Case) -> Advice | None:
    """Micro-batches of a fixed number of sequences are mostly padding: fill them by tokens."""
    lengths, longest = case.values("response/length_mean"), case.number("data.max_response_length")
    updates, steps = case.values("perf/update_s"), case.values("perf/step_s")
    if min(len(lengths), len(updates), len(steps)) < FEW or not longest:
        return None
    if longest < _WORTH or case.config.get("trainer.use_dynamic_bsz") is not False:
        return None
    share, busy = median(lengths) / longest, median(updates) / max(median(steps), 1e-9)
    if share > _SHORT or busy < 0.3:
        return None
    return Advice(
        rule="padding_waste",
        finding=(
            f"responses have {median(lengths):.3g} of at most {longest:g} tokens, so fixed micro-batches hold padding, "
            f"and updates take {busy:.0%} of a step"
        ),
        numbers={"length": median(lengths), "longest": longest, "update_share": busy},
        changes=(Change(path="trainer.use_dynamic_bsz", before=False, after=True),),
        source=GUIDE,
    )


def cache_pressure(case: Case) -> Advice | None:
    """Sampling takes most of a step although the engine was given little memory for keys and values."""
    rollouts, steps = case.values("perf/rollout_s"), case.values("perf/step_s")
    share = case.number("rollout.gpu_memory_utilization")
    if min(len(rollouts), len(steps)) < FEW or share is None or case.config.get("rollout.name") != "vllm":
        return None
    waiting = median(rollouts) / max(median(steps), 1e-9)
    if waiting < _WAITING or share >= _MOST:
        return None
    return Advice(
        rule="cache_pressure",
        finding=f"sampling takes {waiting:.0%} of a step, and the engine has {share:.0%} of the GPU's memory",
        numbers={"rollout_share": waiting, "gpu_memory_utilization": share},
        changes=(Change(path="rollout.gpu_memory_utilization", before=share, after=rounded(min(_MOST, share + 0.15))),),
        source=GUIDE,
    )

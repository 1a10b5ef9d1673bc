"""Reads the sections of a space file other than ``search`` and ``trainer``."""

from __future__ import annotations

import re

from autotune.spec import known, plugins
from autotune.spec.bounds import COUNT, NOT_NEGATIVE, POSITIVE, Bounds
from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Scalar
from autotune.spec.reader import Section, show
from autotune.spec.types import (
    Budget,
    Constraint,
    Finalists,
    Resources,
    Retry,
    SamplerSpec,
)
from autotune.spec.units import parse_duration, parse_memory

NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")
"""A legal job name: it becomes part of ids, URLs and directory names."""
CONSTRAINT = re.compile(r"\s*([A-Za-z_][\w/.-]*)\s*(<=|>=)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)\s*")
FINALISTS_TOP = Bounds(low=1, high=20)
FINALISTS_SEEDS = Bounds(low=1, high=30)
_SEED = Bounds(low=0, high=2**32 - 1)


def read_name(top: Section) -> str:
    """The job's name."""
    if top.entry("name") is None:
        top.missing("name", "Write for example name: my-search")
        return ""
    name = top.text("name")
    if (name or top.entry("name") is not None) and not NAME.fullmatch(name):
        slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:63].strip("-_") or "my-search"
        rule = "1 to 63 lower-case letters, digits, '-' and '_', with a letter or digit at both ends"
        top.complain("name", f"{name[:80]!r} is not a job name: {rule}.", f"Write for example name: {slug}")
    return name


def read_resources(top: Section) -> Resources:
    """What one trial occupies."""
    section = top.section("resources", known.RESOURCES)
    if section is None:
        return Resources()
    memory = None
    entry = section.entry("memory")
    if entry is not None:
        written = entry.node.value if isinstance(entry.node, Scalar) else None
        known_form = isinstance(written, int | str) and not isinstance(written, bool)
        memory = parse_memory(str(written)) if known_form else None
        if not memory:
            hint = "Write for example memory: 64GiB"
            section.complain("memory", f"must be an amount of memory above 0, got {show(entry.node)}.", hint)
    nodes = section.whole("nodes", 1, Bounds(low=1))
    if nodes > 1:
        message = f"a trial runs on one machine, got {nodes}."
        hint = "Write nodes: 1, with as many gpus as one machine has; several trials do spread over all machines."
        section.complain("nodes", message, hint)
    return Resources(
        cpus=float(section.number("cpus", 1.0, POSITIVE)),
        gpus=float(section.number("gpus", 0.0, NOT_NEGATIVE)),
        memory=memory,
    )


def read_constraints(top: Section) -> tuple[Constraint, ...]:
    """What must hold at the end of a trial."""
    found: list[Constraint] = []
    for path, node in top.items("constraints", '["kl/actor_ref <= 0.12"]'):
        text = node.value if isinstance(node, Scalar) else None
        match = CONSTRAINT.fullmatch(text) if isinstance(text, str) else None
        if match is None or not isinstance(text, str):
            message = f"{show(node)} is not a constraint: a metric, <= or >=, and a number."
            top.report.add(node.place, path, message, 'Write for example "kl/actor_ref <= 0.12"')
            continue
        found.append(Constraint(metric=match[1], upper=match[2] == "<=", bound=float(match[3]), text=text.strip()))
        against = [c for c in found if c.metric == match[1] and c.upper != found[-1].upper]
        impossible = next((c for c in against if found[-1].violation(c.bound) > 0), None)
        if impossible is not None:
            message = f"{text.strip()!r} and {impossible.text!r} can never both hold."
            top.report.add(node.place, path, message, "Change one of the two bounds.")
    return tuple(found)


def read_sampler(top: Section) -> SamplerSpec:
    """Which sampler proposes."""
    section = top.section("sampler", known.SAMPLER)
    if section is None:
        return SamplerSpec()
    names = [*known.SAMPLERS, *plugins.names(plugins.SAMPLERS)]
    name = section.one_of("name", "tpe", names, "sampler")
    return SamplerSpec(name=name, seed=section.whole("seed", 0, _SEED))


def read_budget(top: Section, resources: Resources) -> Budget:
    """What may be spent."""
    section = top.section("budget", known.BUDGET)
    if section is None:
        if top.entry("budget") is None:
            top.missing("budget", "Write for example budget: {trials: 40, parallel: 4}")
        return Budget(trials=1)
    if section.entry("trials") is None:
        section.missing("trials", "Write for example trials: 40")
    wall_clock = None
    entry = section.entry("wall_clock")
    if entry is not None:
        written = entry.node.value if isinstance(entry.node, Scalar) else None
        wall_clock = parse_duration(written) if isinstance(written, str) else None
        if not wall_clock:
            hint = "Write for example wall_clock: 24h (also 90m, 30s, 2d)."
            section.complain("wall_clock", f"must be a duration above 0 with its unit, got {show(entry.node)}.", hint)
    gpu_hours = section.number("gpu_hours", 0.0, POSITIVE) or None
    if gpu_hours is not None and resources.gpus == 0 and not top.report.partial:
        hint = "Write how many GPUs a trial occupies under resources.gpus, or limit the job by trials or wall_clock."
        section.complain("gpu_hours", "a trial occupies no GPU, so GPU-hours limit nothing.", hint)
    return Budget(
        trials=section.whole("trials", 1, COUNT),
        parallel=section.whole("parallel", 1, COUNT),
        steps=section.whole("steps", 0, COUNT) or None,
        wall_clock_s=wall_clock,
        gpu_hours=gpu_hours,
    )


def read_finalists(top: Section) -> Finalists | None:
    """The best configurations that are run again."""
    section = top.section("finalists", known.FINALISTS)
    if section is None:
        return None
    default = Finalists()
    return Finalists(
        top=section.whole("top", default.top, FINALISTS_TOP),
        seeds=section.whole("seeds", default.seeds, FINALISTS_SEEDS),
    )


def read_retry(top: Section) -> Retry:
    """When an attempt is repeated."""
    section = top.section("retry", known.RETRY)
    if section is None:
        return Retry()
    words = {**known.RETRYABLE, **dict.fromkeys(known.SYNONYMS, "")}
    kinds: list[str] = []
    for path, node in section.items("on", "[node, port_in_use]"):
        word = node.value if isinstance(node, Scalar) else None
        if not isinstance(word, str) or word not in words:
            blame = word in ("out_of_memory", "non_finite", "config")
            hint = "The configuration is to blame for it; repeating it unchanged cannot help." if blame else ""
            message = f"{show(node)} is not a failure that can be repeated; known are {', '.join(known.RETRYABLE)}."
            section.report.add(node.place, path, message, hint or did_you_mean(str(word), words))
        elif known.SYNONYMS.get(word, word) not in kinds:
            kinds.append(known.SYNONYMS.get(word, word))
    attempts = section.whole("attempts", Retry().attempts, Bounds(low=0, high=100))
    return Retry(attempts=attempts, on=tuple(kinds) if section.entry("on") else Retry().on)

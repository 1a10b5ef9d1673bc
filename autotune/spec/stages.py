"""Reads ``stages``: what each has in common with the others, what it must reach, and what it hands on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.spec import known
from autotune.spec.bounds import POSITIVE, Bounds
from autotune.spec.criteria import Criterion, Who, parse_criterion
from autotune.spec.expression_nodes import ExpressionError
from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Items, Node, Scalar, Table, plain
from autotune.spec.reader import Section, show
from autotune.spec.sections import NAME, read_resources, read_sampler
from autotune.spec.types import (
    Carry,
    CarrySpec,
    Choice,
    OnFail,
    Parameter,
    Resources,
    Retry,
    SamplerSpec,
    Space,
    Stage,
    TrainerSpec,
)

MAX_STAGES = 10
_TOP = Bounds(low=1, high=50)
_EXAMPLE = '["perf/tokens_per_s >= 1.3 * default"]'


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """What the stages of a job have in common, as far as a stage does not say otherwise."""

    name: str
    description: str
    trainer: TrainerSpec
    resources: Resources
    sampler: SamplerSpec
    retry: Retry

    @classmethod
    def of_stage(cls, section: Section, job: Shared) -> Shared:
        """The same for one stage."""
        return cls(
            name=job.name,
            description=section.text("description", job.description),
            trainer=_trainer(section, job.trainer),
            resources=job.resources if section.entry("resources") is None else read_resources(section),
            sampler=job.sampler if section.entry("sampler") is None else read_sampler(section),
            retry=job.retry,
        )


def stage_tables(top: Section) -> Iterator[tuple[str, Table]]:
    """The path and the mapping of each stage; complains about what cannot be one, and about keys beside the stages."""
    for key in known.STAGED:
        entry = top.entry(key)
        if entry is not None:
            message = f"{key!r} stands beside `stages`, where each stage has its own."
            top.report.add(entry.place, key, message, "Move it into the stages that it is meant for.")
    entry = top.entry("stages")
    if entry is not None and isinstance(entry.node, Items) and not 1 <= len(entry.node.nodes) <= MAX_STAGES:
        message = f"there must be 1 to {MAX_STAGES} stages, got {len(entry.node.nodes)}."
        top.complain("stages", message, "Leave `stages` out for a job with one search.")
    for path, node in top.items("stages", "[{name: effect, search: {...}, objective: {...}, budget: {...}}]"):
        if isinstance(node, Table):
            yield path, node
        else:
            message = f"must be a mapping, got {show(node)}."
            top.report.add(node.place, path, message, f"Its keys are: {', '.join(known.STAGES)}.")


def read_stage(section: Section, space: Space, before: Sequence[Stage]) -> Stage:
    """What a stage is beside its search."""
    stage = Stage(
        name=_name(section, before),
        space=space,
        fixed=_fixed(section),
        criteria=_criteria(section),
        carry=_carry(section, space.search),
        on_fail=OnFail(section.one_of("on_fail", OnFail.FAIL, [*OnFail], "answer")),
    )
    _check_references(section, stage, before)
    _check_starts(section, stage, before)
    return stage


def _name(section: Section, before: Sequence[Stage]) -> str:
    name = section.text("name")
    if section.entry("name") is None:
        section.missing("name", "Write for example name: stay-alive")
    elif name and not NAME.fullmatch(name):
        rule = "1 to 63 lower-case letters, digits, '-' and '_', with a letter or digit at both ends"
        section.complain("name", f"{name[:80]!r} is not a stage's name: {rule}.", "Write for example name: stay-alive")
    elif name in [stage.name for stage in before]:
        section.complain("name", f"there is a stage {name!r} already.", "Give each stage a name of its own.")
    return name


def _trainer(section: Section, job: TrainerSpec) -> TrainerSpec:
    inner = section.section("trainer", known.STAGE_TRAINER)
    if inner is None:
        return job
    config = inner.text("config", job.config)
    if job.backend == "command" and inner.entry("config") is not None:
        inner.complain("config", "a command has no configuration to choose.", "Remove it.")
    entry = inner.entry("overrides")
    if entry is None:
        return dataclasses.replace(job, config=config)
    if not isinstance(entry.node, Table):
        inner.complain("overrides", f"must be a mapping, got {show(entry.node)}.", "Write overrides: {model: tiny}")
        return job
    own = {path: plain(value.node) for path, value in entry.node.entries.items()}
    return dataclasses.replace(job, config=config, overrides={**job.overrides, **own})


def _fixed(section: Section) -> tuple[str, ...]:
    trainer = section.entry("trainer")
    overrides = trainer.node.entries.get("overrides") if trainer and isinstance(trainer.node, Table) else None
    return tuple(overrides.node.entries) if overrides and isinstance(overrides.node, Table) else ()


def _criteria(section: Section) -> tuple[Criterion, ...]:
    entry = section.entry("pass")
    if entry is None:
        return ()
    one = isinstance(entry.node, Scalar)
    items: Iterable[tuple[str, Node]] = (
        [(f"{section.path}.pass", entry.node)] if one else section.items("pass", _EXAMPLE)
    )
    found: list[Criterion] = []
    for path, node in items:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            message = f"must be a condition over metrics, got {show(node)}."
            section.report.add(node.place, path, message, f"Write for example pass: {_EXAMPLE}")
            continue
        try:
            criterion = parse_criterion(node.value)
        except ExpressionError as error:
            column = error.problems[0].column if error.problems else 1
            message = f"{error.message.removesuffix('.')} (at character {column})."
            section.report.add(node.place, path, message, error.hint)
            continue
        if not any(reading.who is Who.WINNER for reading in criterion.readings.values()):
            message = f"{criterion.text!r} reads nothing of the stage's winner, so no trial could change it."
            section.report.add(node.place, path, message, f"Write for example pass: {_EXAMPLE}")
        found.append(criterion)
    return tuple(found)


def _carry(section: Section, search: Mapping[str, Parameter]) -> CarrySpec:
    entry = section.entry("carry")
    if entry is None:
        return CarrySpec()
    if isinstance(entry.node, Scalar):
        return CarrySpec(how=Carry(section.one_of("carry", Carry.FIX, [*Carry], "way to carry")))
    inner = section.section("carry", known.CARRY)
    if inner is None:
        return CarrySpec()
    how = Carry(inner.one_of("as", Carry.FIX, [*Carry], "way to carry"))
    top = inner.whole("top", 1, _TOP)
    if how is Carry.FIX and top > 1:
        message = f"only one configuration can be fixed, got top: {top}."
        inner.complain("top", message, "Write as: start to let the next stage try several.")
    return CarrySpec(how=how, top=top, scale=_scale(inner, search), drop=_drop(inner, search))


def _scale(section: Section, search: Mapping[str, Parameter]) -> Mapping[str, float]:
    entry = section.entry("scale")
    if entry is None:
        return {}
    if not isinstance(entry.node, Table):
        section.complain("scale", f"must be a mapping, got {show(entry.node)}.", "Write for example scale: {lr: 0.5}")
        return {}
    inner = Section(entry.node, f"{section.path}.scale", section.report, entry.node.entries)
    for path, one in entry.node.entries.items():
        if _is_searched(inner, path, search, one.node) and isinstance(search[path].domain, Choice):
            inner.complain(path, f"{path} is a choice, which cannot be multiplied.", "Scale numbers only, or drop it.")
    return {path: inner.number(path, 1.0, POSITIVE) for path in entry.node.entries}


def _drop(section: Section, search: Mapping[str, Parameter]) -> tuple[str, ...]:
    found: list[str] = []
    for path, node in section.items("drop", "[lr]"):
        name = node.value if isinstance(node, Scalar) else None
        if not isinstance(name, str):
            section.report.add(node.place, path, f"must be a parameter's name, got {show(node)}.")
            continue
        full = section.report.aliases.get(name, name)
        if full not in search:
            message = f"{name!r} is not searched in this stage."
            section.report.add(node.place, path, message, did_you_mean(full, search))
        found.append(full)
    return tuple(found)


def _is_searched(section: Section, path: str, search: Mapping[str, Parameter], node: Node) -> bool:
    if path in search:
        return True
    message = f"{path!r} is not searched in this stage."
    section.report.add(node.place, f"{section.path}.{path}", message, did_you_mean(path, search))
    return False


def _check_references(section: Section, stage: Stage, before: Sequence[Stage]) -> None:
    """Whether what the criteria compare with is ever measured."""
    compared = {reading.who for criterion in stage.criteria for reading in criterion.readings.values()}
    has_default = any(start.label == "default" for start in stage.space.start_from)
    if Who.DEFAULT in compared and not has_default:
        message = "the criterion compares with the default configuration, which this stage never runs."
        section.complain("pass", message, "Add start_from: [default] to the stage.")
    if Who.PREVIOUS in compared and not before:
        message = "the criterion compares with the stage before, and this is the first one."
        section.complain("pass", message, "Compare with default in place of previous.")


def _check_starts(section: Section, stage: Stage, before: Sequence[Stage]) -> None:
    """Whether the starts that the stage before hands over fit into this one's budget."""
    if not before or before[-1].carry.how is not Carry.START:
        return
    given, own = before[-1].carry.top, len(stage.space.start_from)
    if given + own > stage.space.budget.trials and section.entry("budget") is not None:
        message = (
            f"{given} configurations from stage {before[-1].name!r} and {own} of start_from do not fit into a budget "
            f"of {stage.space.budget.trials} trials."
        )
        section.complain("budget", message, "Raise budget.trials, or carry fewer.")


def words(stage: Stage) -> str:
    """What a stage hands on, in words."""
    carry = stage.carry
    changed = [f"{path} times {factor:g}" for path, factor in carry.scale.items()]
    changed += [f"without {path}" for path in carry.drop]
    what = "the winner's values are fixed"
    if carry.how is Carry.START:
        what = "the winner is tried first" if carry.top == 1 else f"the best {carry.top} are tried first"
    return f"{what} ({', '.join(changed)})" if changed else what

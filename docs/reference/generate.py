"""Makes the pages of this directory from the code: ``python docs/reference/generate.py``. ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from autotune import errors
from autotune.api import create_app
from autotune.cli.main import app
from autotune.errors import AutotuneError
from autotune.execution.usage import SYSTEM_METRICS
from autotune.settings import Settings
from autotune.spec import known
from autotune.spec.aliases import ALIASES
from autotune.spec.json_schema import space_schema
from autotune.spec.pruning import PRUNERS
from trainer.config import build, compose, metrics_of
from trainer.config.compose import conf_dir

HERE = Path(__file__).resolve().parent
_HEAD = "<!-- Made by docs/reference/generate.py from the code; do not edit. -->\n"
_CODES = {
    0: "It worked.",
    1: "A defect of autotune; run the command with `--debug` to see where.",
    130: "Interrupted with Ctrl-C.",
}


def row(*cells: object) -> str:
    """A line of a table."""
    return "| " + " | ".join(" ".join(str(cell).split()).replace("|", "\\|") for cell in cells) + " |"


def rows(header: tuple[str, ...], lines: Iterable[tuple[object, ...]]) -> list[str]:
    """A table."""
    return [row(*header), "|" + "---|" * len(header), *(row(*line) for line in lines), ""]


def space_file() -> list[str]:
    """Keys, samplers, pruners and short names of the space file."""
    lines = ["# The space file", "", "[`space.schema.json`](space.schema.json) is its JSON Schema: an editor that"]
    lines += ["knows it completes and checks while you type (`# yaml-language-server: $schema=space.schema.json`)."]
    lines += ["`autotune plan FILE` checks everything else too and names every mistake with its line.", ""]
    lines += ["## Keys", "", *rows(("key", "what"), ((f"`{key}`", text) for key, text in known.TOP.items()))]
    lines += ["### Inside", "", *_inside(space_schema())]
    lines += ["## Inside `stages`", "", *rows(("key", "what"), ((f"`{k}`", text) for k, text in known.STAGES.items()))]
    lines += ["## Samplers", "", *rows(("name", "what"), ((f"`{k}`", text) for k, text in known.SAMPLERS.items()))]
    lines += ["## Pruners", "", "Written as `- name` or `- name: {option: value}`, asked in their order.", ""]
    for name, kind in PRUNERS.items():
        lines += [f"### `{name}`", "", kind.description, ""]
        options = (
            (f"`{key}`", "required" if one.required else _default(one.default), one.description)
            for key, one in kind.options.items()
        )
        lines += rows(("option", "default", "what"), options) if kind.options else []
    lines += ["## Failures that may be repeated (`retry.on`)", ""]
    lines += rows(("kind", "what"), ((f"`{k}`", text) for k, text in known.RETRYABLE.items()))
    lines += ["## Short names", "", "They stand for keys of the configuration wherever a parameter is named.", ""]
    return lines + rows(("short", "path"), ((f"`{short}`", f"`{path}`") for short, path in sorted(ALIASES.items())))


def _inside(schema: Mapping[str, Any]) -> list[str]:
    sections = {
        "search.NAME": known.PARAMETER,
        "objective": known.OBJECTIVE,
        "sampler": known.SAMPLER,
        "budget": known.BUDGET,
        "finalists": known.FINALISTS,
        "retry": known.RETRY,
        "resources": known.RESOURCES,
        "trainer": tuple(schema["properties"]["trainer"].get("properties", {})),
    }
    return rows(("section", "keys"), ((f"`{name}`", _code(keys)) for name, keys in sections.items()))


def _code(names: Iterable[object]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _default(value: object) -> str:
    return "" if value is None else f"`{json.dumps(value)}`"


def configuration() -> list[str]:
    """The configuration tree of the trainer, from its files and the comments in them."""
    lines = ["# The configuration of the trainer", ""]
    lines += [
        "One option of each group makes a configuration: `data: digits` under `trainer.overrides` of a space file, or"
    ]
    lines += ["`python -m trainer data=digits`. Every key can be set by its path and searched by it.", ""]
    groups: dict[str, list[Path]] = {}
    for file in sorted(conf_dir().glob("*/*.yaml")):
        groups.setdefault(file.parent.name, []).append(file)
    for group, files in groups.items():
        lines += [f"## `{group}`", "", *rows(("option", "what"), ((f"`{one.stem}`", _headline(one)) for one in files))]
        first = next((one for one in files if "defaults:" not in one.read_text()), None)
        if first is not None and group != "experiment":
            lines += [f"Keys, with the values of `{first.stem}`:", ""]
            lines += rows(("key", "value", "what"), _keys(first, group))
    return lines


def _headline(file: Path) -> str:
    comment = [line[1:].strip() for line in file.read_text().split("\n\n")[0].splitlines() if line.startswith("#")]
    return " ".join(line for line in comment if not line.startswith("@package"))


def _keys(file: Path, group: str) -> Iterator[tuple[str, str, str]]:
    comment: list[str] = []
    around: list[tuple[int, str]] = []
    for line in file.read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment.append(text[1:].strip())
        elif ":" in text:
            depth = len(line) - len(line.lstrip())
            around = [one for one in around if one[0] < depth]
            key, _, value = text.partition(":")
            path = ".".join([group, *(name for _, name in around), key])
            if value.strip():
                yield f"`{path}`", f"`{value.strip()}`", " ".join(comment)
            else:
                around.append((depth, key))
            comment = []
        else:
            comment = []


def metrics() -> list[str]:
    """What the built-in trainer measures."""
    lines = [
        "# Metrics",
        "",
        "What the built-in trainer measures at every step, by the names that `objective`, `constraints`",
    ]
    lines += [
        "and pruners use. [verl's](../how-to/verl.md) carry the same names; a [command](../how-to/any-command.md)"
    ]
    lines += ["declares its own. A component of a weighted reward adds `reward/NAME` and `eval/NAME`.", ""]
    ours = metrics_of(build(compose("config")))
    lines += rows(("metric", "what"), ((f"`{name}`", text) for name, text in ours.items()))
    for method in ("dpo", "kto"):
        added = {name: text for name, text in metrics_of(build(compose(method))).items() if ours.get(name) != text}
        lines += [f"## With `{method}`", "", *rows(("metric", "what"), ((f"`{k}`", v) for k, v in added.items()))]
    lines += ["## Of every backend", "", "Measured beside a trial of whatever backend, about every ten seconds:", ""]
    return lines + rows(("metric", "what"), ((f"`{name}`", text) for name, text in SYSTEM_METRICS.items()))


def cli() -> list[str]:
    """All commands with their options."""
    lines = ["# The command line", "", "Data on stdout, everything else on stderr. `--json` prints one document with a"]
    lines += ["stable shape. [Exit codes](exit-codes.md). [Environment](environment.md).", ""]
    return lines + [
        line for path, command in _commands("autotune", typer.main.get_command(app)) for line in _command(path, command)
    ]


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - the vendored click has no types
    inner = getattr(command, "commands", None)
    if not inner:
        yield path, command
        return
    for name, one in inner.items():
        yield from _commands(f"{path} {name}", one)


def _command(path: str, command: Any) -> list[str]:  # noqa: ANN401 - the vendored click has no types
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    usage = " ".join([path, *(one.name.upper() if one.required else f"[{one.name.upper()}]" for one in arguments)])
    lines = [f"## `{usage}`", "", " ".join((command.help or "").split()), ""]
    table = [(f"`{one.name.upper()}`", getattr(one, "help", "") or "") for one in arguments]
    table += [(", ".join(f"`{opt}`" for opt in [*one.opts, *one.secondary_opts]), one.help or "") for one in options]
    return lines + (rows(("", "what"), table) if table else [])


def rest() -> list[str]:
    """All routes."""
    document = create_app(SimpleNamespace(), Settings()).openapi()  # type: ignore[arg-type] - nothing is asked of it
    lines = ["# The REST API", "", "`GET /openapi.json` at a running service is the whole of it for programs.", ""]
    lines += [document["info"]["description"], ""]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += [f"## `{method.upper()} {path}`", "", " ".join(operation.get("description", "").split()), ""]
            table = [
                (f"`{one['name']}`", one["in"], one.get("description", "")) for one in operation.get("parameters", [])
            ]
            lines += rows(("parameter", "in", "what"), table) if table else []
            answers = (status for status in operation["responses"] if status != "default")
            lines += [f"Answers {', '.join(answers)}; `{operation['operationId']}`.", ""]
    return lines


def exit_codes() -> list[str]:
    """What a command's exit code says, from the tree of errors."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AutotuneError)]
    found: dict[int, list[tuple[str, int, str]]] = {}
    for kind in kinds:
        if kind is not AutotuneError:
            about = " ".join((kind.__doc__ or "").split())
            found.setdefault(kind.exit_code, []).append((kind.code, kind.status, about))
    lines = [
        "# Exit codes",
        "",
        "`code` and status are what the REST API answers with, as `application/problem+json`.",
        "",
    ]
    table = [(code, "", "", text) for code, text in _CODES.items() if code < 2]
    table += [(code, f"`{name}`", status, about) for code in sorted(found) for name, status, about in found[code]]
    return lines + rows(("exit code", "code", "status", "when"), [*table, (130, "", "", _CODES[130])])


def environment() -> list[str]:
    """The variables that are read."""
    lines = ["# Environment", "", "Read when a command or the service starts; a wrong value is named.", ""]
    table = []
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None or field.default == "" else f"`{field.default}`"
        table.append((f"`AUTOTUNE_{name.upper()}`", default, field.description or ""))
    table.append(("`AUTOTUNE_DEBUG`", "", "`1`: tracebacks and logs on stderr, as `--debug`."))
    table.append(("`NO_COLOR`", "", "Set: no colours."))
    return lines + rows(("variable", "default", "what"), table)


PAGES: Mapping[str, Callable[[], list[str]]] = {
    "space-file.md": space_file,
    "configuration.md": configuration,
    "metrics.md": metrics,
    "cli.md": cli,
    "rest.md": rest,
    "exit-codes.md": exit_codes,
    "environment.md": environment,
}


def pages() -> dict[str, str]:
    """File name -> text of every page."""
    made = {name: _HEAD + "\n".join(make()).rstrip() + "\n" for name, make in PAGES.items()}
    return {**made, "space.schema.json": json.dumps(space_schema(), indent=2) + "\n"}


def main() -> int:
    """Writes the pages, or says which are out of date."""
    check = "--check" in sys.argv[1:]
    stale = []
    for name, text in pages().items():
        file = HERE / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                file.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{'out of date' if check else 'written'}: {', '.join(stale) or 'none'}\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

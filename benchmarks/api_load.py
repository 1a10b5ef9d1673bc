"""How fast the service answers with 10,000 trials and 1,000,000 points stored, and how many points it takes meanwhile.

For SQLite and, where its server is installed, PostgreSQL: one client asks request after request; then twenty read, each
about twice a second, while a driver writes one point after the other, each in a transaction of its own. The dashboard's
study page is asked for the mirror of one study.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.api_load_roles import Stored, ask, read_together, report_points
from benchmarks.api_load_store import FULL, QUICK, SPACE, Size, fill, mirror, running_job, settle
from benchmarks.harness import Target, finish, parser, progress

CLIENTS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark."""
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--database", choices=("sqlite", "postgresql"), action="append", help="default: both")
    chosen = command.parse_args(arguments)
    size, rounds, seconds = (QUICK, 10, 3.0) if chosen.quick else (FULL, 200, 30.0)
    results: dict[str, object] = {}
    targets: list[Target] = []
    for kind in chosen.database or ("sqlite", "postgresql"):
        with _database(kind) as url:
            if url is None:
                progress("postgresql: no server can be started here; left out")
                continue
            found = measure(url, size, rounds, seconds)
        results[kind] = found
        targets += targets_of(kind, found)
    return finish("api_load", chosen, results, targets, ["fastapi", "sqlalchemy", "uvicorn", "optuna-dashboard"])


def measure(url: str, size: Size, rounds: int, seconds: float) -> dict[str, object]:
    """Fills one database and asks the service that stands on it."""
    from autotune.service.spaces import resolve_space
    from autotune.store import Store

    resolved = resolve_space(SPACE, "load.yaml")
    home = Path(tempfile.mkdtemp(prefix="api-load-"))
    store = Store(url)
    store.migrate()
    began = time.monotonic()
    jobs = fill(store, size, resolved.document, dict(resolved.base))
    filled = time.monotonic() - began
    points = size.jobs * size.trials * size.steps
    progress(f"{store.url.get_backend_name()}: {points} points stored in {filled:.0f} s")
    study = mirror(url, store, jobs[0], resolved.space)
    at_work = running_job(store, resolved.document)
    settle(store)
    store.close()
    stored = Stored(jobs=jobs, trials=size.trials)
    try:
        with _service(url, home) as address, ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            pool.submit(ask, address, stored, 3, 1).result()  # what is imported or cached the first time
            alone = pool.submit(ask, address, stored, rounds, 2).result()
            writing = pool.submit(report_points, url, at_work.id, at_work.lease_token, seconds)
            reading = pool.submit(read_together, address, stored, CLIENTS, seconds)
            together, rate = reading.result(), writing.result()
            page = _study_page(address, study)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return {
        "stored": {
            "jobs": size.jobs,
            "trials": size.jobs * size.trials,
            "points": points,
            "points_per_s": points / filled,
        },
        "one_client_ms": {kind: _spread(times) for kind, times in alone.items()},
        f"{CLIENTS}_clients_ms": {kind: _spread(times) for kind, times in sorted(together.items())},
        "points_per_s_meanwhile": rate,
        "dashboard_study_s": page,
    }


def targets_of(kind: str, found: dict[str, object]) -> list[Target]:
    """What the service owes its users."""
    together = dict(found[f"{CLIENTS}_clients_ms"])  # type: ignore[call-overload]
    targets = [
        Target(
            name=f"{kind}: p99 of {name} with {CLIENTS} clients (ms)",
            value=together[name]["p99"],
            target=limit,
            at_least=False,
        )
        for name, limit in (
            *((name, 100.0) for name in ("list jobs", "list trials", "show job", "show trial")),
            ("curves of one trial", 50.0),
        )
        if name in together
    ]
    rate, page = float(str(found["points_per_s_meanwhile"])), float(str(found["dashboard_study_s"]))
    targets.append(Target(name=f"{kind}: points/s while {CLIENTS} clients read", value=rate, target=1000.0))
    targets.append(Target(name=f"{kind}: dashboard's study page (s)", value=page, target=3.0, at_least=False))
    return targets


@contextlib.contextmanager
def _service(database: str, home: Path) -> Iterator[str]:
    """The service as people run it."""
    environment = {**os.environ, "AUTOTUNE_HOME": str(home), "AUTOTUNE_DATABASE_URL": database}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-m", "autotune.cli.main", "serve", "--port", "0", "--json"]
    with (home / "serve.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the service did not start: {(home / 'serve.log').read_text()[-2000:]}")
            text += line
        yield str(json.loads(text)["url"])
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def _database(kind: str) -> Iterator[str | None]:
    """The URL of an empty database, ``None`` where there is no server for it."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="api-load-db-") as directory:
            yield f"sqlite:///{directory}/autotune.db"
        return
    from tests.postgres import missing, started

    if missing():
        yield None
        return
    with started(durable=True) as server:
        yield f"postgresql://tester@/postgres?host={server}"


def _study_page(url: str, study: str) -> float:
    """Seconds of what the dashboard's page about one study asks for, the second time."""
    import httpx2

    with httpx2.Client(base_url=url, timeout=120.0) as client:
        for _ in range(2):
            began = time.perf_counter()
            studies = client.get("/api/studies").json()["study_summaries"]
            (number,) = [one["study_id"] for one in studies if one["study_name"] == study]
            page = client.get(f"/api/studies/{number}", params={"after": 0})
            page.raise_for_status()
            passed = time.perf_counter() - began
    return passed


def _spread(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(1000 * seconds for seconds in times)
    place = min(len(ordered) - 1, int(0.99 * len(ordered)))
    return {"p50": round(statistics.median(ordered), 2), "p99": round(ordered[place], 2), "requests": len(ordered)}


if __name__ == "__main__":
    sys.exit(main())

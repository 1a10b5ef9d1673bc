"""``python -m autotune.service.mirroring JOB --parent PID``: brings Optuna and MLflow up to a job that has ended.

Its driver has done so as a rule; where a mirror did not answer until the end, or the driver died first, the supervisor
starts this, in a process of its own since MLflow is large.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings

from autotune.errors import AutotuneError, ConflictError
from autotune.service.enclosing import enclose
from autotune.service.owner import TRY_AGAIN, die_with, new_owner
from autotune.service.service import Service, open_service
from autotune.service.upkeep import write_mirrors
from autotune.settings import load_settings
from autotune.states import JOB_ENDS

logger = logging.getLogger("autotune.mirroring")

_LEASE_S = 600.0


def catch_up(service: Service, job_id: str) -> None:
    """Writes both mirrors of a job that has ended, with its report, under its lease, and takes note of it.

    Raises:
        ConflictError: If somebody else is at it, or the job goes on.
        AutotuneError: If a mirror does not answer.
    """
    now = service.clock.now()
    with service.store.begin() as work:
        lease = work.jobs.lease(job_id, new_owner(), now, _LEASE_S)
        job = work.jobs.get(job_id)
        studies = work.jobs.studies(job_id)
    try:
        if job.state not in JOB_ENDS:
            raise ConflictError(f"job {job_id!r} is {job.state}; its driver writes the mirrors.")
        for study in studies:
            if study.started_at is not None or study is studies[0]:
                write_mirrors(service, job, study)
        enclose(service, job_id)
        with service.store.begin() as work:
            work.jobs.mark_mirrored(job_id, service.clock.now())
    finally:
        with service.store.begin() as work:
            work.jobs.release(lease)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 75 where it should be tried again later."""
    parser = argparse.ArgumentParser(prog="python -m autotune.service.mirroring", description="Writes a job's mirrors.")
    parser.add_argument("job")
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args(argv)
    die_with(options.parent)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    warnings.filterwarnings("ignore", module="optuna")
    try:
        catch_up(open_service(load_settings()), options.job)
    except AutotuneError as error:
        logger.warning("the mirrors of %s are still behind: %s", options.job, error.message)
        return TRY_AGAIN
    logger.info("the mirrors of %s are up to date", options.job)
    return 0


if __name__ == "__main__":
    sys.exit(main())

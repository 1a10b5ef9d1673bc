"""Views of ended jobs, kept from one request to the next: nothing changes in them until the job itself does."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from autotune.states import JOB_ENDS
from autotune.store.values import Job
from autotune.views import JobView

_MOST = 2000


class KeptViews:
    """Remembers what an ended job looks like, by the job's row.

    The view of a job is made of its trials, of which there may be thousands. Trials change under a lease only, so with
    the row of an ended job unchanged they are what they were.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Job, JobView]] = OrderedDict()

    def view(self, job: Job, make: Callable[[], JobView]) -> JobView:
        """The view of a job as it is now; ``make`` is called where it is not known."""
        if job.state not in JOB_ENDS:
            return make()
        with self._lock:
            known = self._kept.get(job.id)
            if known is not None and known[0] == job:
                self._kept.move_to_end(job.id)
                return known[1]
        view = make()
        with self._lock:
            self._kept[job.id] = (job, view)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return view

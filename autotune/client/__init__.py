"""The Python SDK: every use case of the service over HTTP, typed, with the very errors the service raised.

Example:
    >>> with Client("http://127.0.0.1:8765") as client:  # doctest: +SKIP
    ...     job = client.open(client.submit(Path("space.yaml").read_text()).id)
    ...     job.wait()
    ...     print(job.best().overrides)
    ...     job.to_dataframe().plot.scatter("kl/actor_ref", "value")

``AsyncClient`` has the same methods as coroutines.
"""

from autotune.client.asynchronous import AsyncClient
from autotune.client.blocking import Client
from autotune.client.handle import JobHandle
from autotune.client.outcome import check_succeeded
from autotune.client.wire import DEFAULT_URL

__all__ = ["DEFAULT_URL", "AsyncClient", "Client", "JobHandle", "check_succeeded"]

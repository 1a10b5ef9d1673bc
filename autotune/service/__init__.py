"""The use cases: submit, plan, watch, cancel, resume; and the supervisor that gives queued jobs a driver."""

from autotune.service.service import Service, open_service
from autotune.service.spawning import Drivers
from autotune.service.supervisor import Supervisor, run_embedded

__all__ = ["Drivers", "Service", "Supervisor", "open_service", "run_embedded"]

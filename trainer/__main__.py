"""Entry point of `python -m trainer`."""

from trainer.cli import main
from trainer.leaving import leave

if __name__ == "__main__":
    leave(main())

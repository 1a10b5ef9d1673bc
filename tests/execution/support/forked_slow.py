"""An import that takes long."""

import time

time.sleep(60)

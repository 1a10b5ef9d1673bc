"""An import that starts a thread, after which nothing may fork."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()

"""A child whose import starts a thread, which no fork would have."""

from __future__ import annotations

import threading

from ward import main

THREAD = threading.Thread(target=threading.Event().wait, daemon=True)
THREAD.start()

if __name__ == "__main__":
    main()

"""The resource usage of a measured process, which it reports when it is asked.

Needs the standard library only: it runs in the environments of other frameworks, too.
"""

import json
import os
import resource
import sys
import threading


def spent() -> str:
    """Return the CPU time and the peak memory of this process so far, as JSON."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return json.dumps(
        {"cpu_s": usage.ru_utime + usage.ru_stime, "peak_rss_bytes": usage.ru_maxrss * unit}
    )


def report_when_asked() -> None:
    """Answer each line on standard input with the usage; end the process with the input."""

    def answer() -> None:
        for _ in sys.stdin:
            print(spent(), flush=True)
        os._exit(0)

    threading.Thread(target=answer, daemon=True).start()

"""``make bench``: every bench of this folder after the other, each in a process of its own.

A bench prints figures and ratios measured in one run. ``python -m bench.plan`` runs a single one.
"""

import subprocess
import sys

BENCHES = ("plan", "cabling", "build", "flow", "packet", "packet_memory", "packet_simpy")
"""In order of time taken. The fuzzer (``packet_fuzz``) is run by hand: it lasts as long as it is told to."""


def main() -> int:
    """Run all benches; return 1 when one of them failed."""
    failed = []
    for name in BENCHES:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

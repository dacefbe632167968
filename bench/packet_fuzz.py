"""Fuzz of the readers of ``NET.yaml``, ``FLOWS.csv`` and ``OPTIONS.yaml``: ``python -m bench.packet_fuzz [minutes] [seed]``.

Valid files are mutated byte by byte and token by token, or (every second one) only in their numbers, names and lines, so that
many stay legal. Anything but a clean read or an `InputError` is a crash. What is read cleanly is also run, within a time
limit, so that the engine sees strange but legal networks.
"""

import faulthandler
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from railwright.errors import InputError
from railwright.simulate.network_file import read_flows, read_network
from railwright.simulate.options_file import read_options
from railwright.simulate.packet.engine import simulate_packets

NET = """nodes:
  - {name: l0, kind: switch, buffer_bytes: 2.0e+6, latency_ns: 500, qos: tight}
  - {name: l1, kind: switch, buffer_bytes: 2.0e+6}
  - {name: a, kind: host}
  - {name: b, kind: host}
  - {name: c, kind: host}
links:
  - {a: a, b: l0, gbps: 400, delay_us: 0.1}
  - {a: b, b: l0, gbps: 100, delay_us: 0.1}
  - {a: l0, b: l1, gbps: 400, delay_us: 1}
  - {a: l1, b: c, gbps: 400, delay_us: 0.1}
qos:
  tight:
    data: {kmin_bytes: 8000, kmax_bytes: 9000, pmax: 1, headroom_bytes: 100000}
"""
FLOWS = """flow_id,src,dst,bytes,start_us,class,path
1,a,c,40000,0,data,a;l0;l1;c
2,b,c,400000,1.5,,
3,c,a,1,3,best_effort,
"""
OPTIONS = """paths: ecmp
mtu_bytes: 1024
buffer_bytes: 4.0e+6
pause_quanta: 65535
classes:
  data: {kmin_bytes: 20000, kmax_bytes: 80000, pmax: 0.5, alpha: 0.125, xoff_bytes: 0, weight: 2, rto_us: 500, queue_pairs: 1}
  best_effort: {alpha: 1, reorder_packets: 3}
dcqcn: {g: 0.0625, increase_timer_us: 55, fast_recovery: 5}
"""
TOKENS = [
    "",
    *"0;,:~-{}#é\n\t\x00'\"",
    "-1",
    "1e300",
    "nan",
    "inf",
    "[]",
    "null",
    "host",
    "switch",
    "a",
    "l0",
    "&a",
    "*a",
]
NUMBERS = ["0", "1", "2", "0.5", "64", "4096", "400", "1e5", "1e6"]
TOKENS += ["!!python/object:os.system", "9" * 20, "- "]


def mutate(text: str, chance: random.Random) -> str:
    """Return ``text`` with one to six random edits."""
    for _ in range(chance.randint(1, 6)):
        at, length = chance.randrange(len(text) + 1), chance.choice([0, 1, 2, 5, 20])
        kind = chance.random()
        if kind < 0.5:
            insert = chance.choice(TOKENS)
        elif kind < 0.8:
            start = chance.randrange(len(text) + 1)
            insert = text[start : start + chance.randrange(40)]
        else:
            insert = chr(chance.choice([chance.randrange(128), chance.randrange(0x2FFF)]))
        text = text[:at] + insert + text[at + length :]
    return text


def legal(text: str, chance: random.Random) -> str:
    """Return ``text`` with one to three numbers, names or lines replaced by others that may well be right."""
    for _ in range(chance.randint(1, 3)):
        kind = chance.random()
        if kind < 0.7:
            spots = list(re.finditer(r"(?<![\w.])\d[\d.]*(?:e\+\d)?(?!\w)", text))
            others = [*NUMBERS, f"{10 ** chance.uniform(-3, 7):.3g}"]
        elif kind < 0.85 and "l0" in text:
            spots = list(re.finditer(r"(?<=[ ,;])(?:a|b|c|l0|l1)(?=[,;\n])", text))
            others = ["a", "b", "c", "l0", "l1"]
        else:
            spots = list(re.finditer(r"(?<=\n)[^\n]*\n", text))
            others = ["", spots[-1][0] * 2] if spots else [""]
        if not spots:
            continue
        spot = chance.choice(spots)
        text = text[: spot.start()] + chance.choice(others) + text[spot.end() :]
    return text


def main(minutes: float, seed: int) -> None:
    """Fuzz for ``minutes`` and print how many files were tried, refused and run."""
    faulthandler.enable()
    chance = random.Random(seed)  # noqa: S311
    tried = refused = ran = 0
    end = time.monotonic() + 60 * minutes
    texts = {"NET.yaml": NET, "FLOWS.csv": FLOWS, "OPTIONS.yaml": OPTIONS}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / name for name in texts}
        while time.monotonic() < end:
            tried += 1
            change = chance.choice([mutate, legal])
            wrong = set(chance.sample(list(texts), chance.choice([1, 1, 1, 2])))
            for name, text in texts.items():
                files[name].write_text(change(text, chance) if name in wrong else text, errors="surrogatepass")
            try:
                user = read_network(files["NET.yaml"])
                traffic, pinned = read_flows(files["FLOWS.csv"], user.network)
                options = read_options(files["OPTIONS.yaml"], profile=chance.choice(["rocev2", "infiniband"]))
                if traffic["bytes"].sum() < 1e8:
                    options = options.model_copy(update={"time_limit_us": 5000.0})
                    simulate_packets(user.network, traffic, options, tried, pinned=pinned, thresholds=user.thresholds)
                    ran += 1
            except InputError:
                refused += 1
            except BaseException:
                print(f"crash at file {tried} (seed {seed})", *(file.read_text() for file in files.values()), sep="\n")
                raise
    print(f"{tried} inputs in {minutes:g} minutes: {refused} refused with a named error, {ran} run, no crash")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, int(sys.argv[2]) if len(sys.argv) > 2 else 0)

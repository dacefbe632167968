"""Fuzz of the readers of ``NET.yaml`` and ``FLOWS.csv``: ``python -m bench.packet_fuzz [minutes] [seed]``.

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
from railwright.simulate.packet import simulate_packets
from railwright.simulate.packet_options import infiniband, rocev2

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
        if kind < 0.6:
            spots = list(re.finditer(r"(?<![\w.])\d[\d.]*(?:e\+\d)?(?!\w)", text))
            others = [*NUMBERS, f"{10 ** chance.uniform(-3, 7):.3g}"]
        elif kind < 0.8:
            spots = list(re.finditer(r"(?<=[ ,;])(?:a|b|c|l0|l1)(?=[,;\n])", text))
            others = ["a", "b", "c", "l0", "l1"]
        else:
            spots = list(re.finditer(r"(?<=\n)[^\n]*\n", text))
            others = ["", chance.choice(spots)[0] * 2]
        spot = chance.choice(spots)
        text = text[: spot.start()] + chance.choice(others) + text[spot.end() :]
    return text


def main(minutes: float, seed: int) -> None:
    """Fuzz for ``minutes`` and print how many files were tried, refused and run."""
    faulthandler.enable()
    chance = random.Random(seed)  # noqa: S311
    tried = refused = ran = 0
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        net, flows = Path(folder) / "NET.yaml", Path(folder) / "FLOWS.csv"
        while time.monotonic() < end:
            tried += 1
            texts = NET, FLOWS
            which, change = chance.randrange(3), chance.choice([mutate, legal])
            net.write_text(change(texts[0], chance) if which != 1 else texts[0], errors="surrogatepass")
            flows.write_text(change(texts[1], chance) if which != 0 else texts[1], errors="surrogatepass")
            try:
                user = read_network(net)
                traffic, pinned = read_flows(flows, user.network)
                if traffic["bytes"].sum() < 1e8:
                    options = chance.choice([rocev2, infiniband])(time_limit_us=5000.0)
                    simulate_packets(user.network, traffic, options, tried, pinned=pinned, thresholds=user.thresholds)
                    ran += 1
            except InputError:
                refused += 1
            except BaseException:
                print(f"crash at file {tried} (seed {seed})\n{net.read_text()}\n{flows.read_text()}")
                raise
    print(f"{tried} files in {minutes:g} minutes: {refused} refused with a named error, {ran} run, no crash")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, int(sys.argv[2]) if len(sys.argv) > 2 else 0)

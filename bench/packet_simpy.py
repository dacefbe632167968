"""A living yardstick: the same small network and traffic in simpy, the usual way to write a simulator in Python.

``python -m bench.packet_simpy`` (needs ``pip install simpy``). One switch, a permutation of full packets with one
acknowledgement each, output queues, no flow control, no congestion control: less work per hop than the packet engine does.
Both must agree on the last finish to the nanosecond, so that the same thing is measured.
"""

import resource
import sys
from collections.abc import Generator
from importlib import import_module
from typing import Any

import numpy as np
import polars as pl
from bench.packet_cases import sends

from railwright.simulate.network import Network
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2

HOSTS, PACKETS, MTU, HEADER, ACK, GBPS, DELAY_NS = 8, 400, 4096, 82, 86, 400.0, 100.0


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def in_simpy(packets: int) -> tuple[float, float]:
    """Return (last arrival in ns, CPU seconds) of ``packets`` per host, host h to host h + 1, over one switch."""
    simpy = import_module("simpy")
    env = simpy.Environment()
    up = [simpy.PriorityStore(env) for _ in range(HOSTS)]
    down = [simpy.PriorityStore(env) for _ in range(HOSTS)]
    last, number = 0.0, 0

    def put(queue: Any, first: int, packet: tuple[int, int]) -> None:
        nonlocal number
        number += 1
        queue.put((first, number, packet))  # hosts send acknowledgements first, as NICs do

    def fly(to: Any, packet: tuple[int, int]) -> Generator[Any, None, None]:
        yield env.timeout(DELAY_NS)
        to(packet)

    def port(queue: Any, to: Any) -> Generator[Any, None, None]:
        while True:
            packet = (yield queue.get())[2]
            yield env.timeout(packet[1] * 8 / GBPS)
            env.process(fly(to, packet))

    def receive(host: int) -> Any:
        def at_host(packet: tuple[int, int]) -> None:
            nonlocal last
            if packet[1] > ACK:
                last = env.now
                put(up[host], 0, ((host - 1) % HOSTS, ACK))

        return at_host

    for host in range(HOSTS):
        env.process(port(up[host], lambda packet: put(down[packet[0]], 1, packet)))
        env.process(port(down[host], receive(host)))
        for _ in range(packets):
            put(up[host], 1, ((host + 1) % HOSTS, MTU + HEADER))
    began = _cpu_s()
    env.run()
    return last, _cpu_s() - began


def in_engine(packets: int) -> tuple[float, float]:
    """Return the same of the packet engine, on the same network and traffic."""
    ends = np.asarray([end for h in range(HOSTS) for end in ((h, HOSTS), (HOSTS, h))], np.int32)
    network = Network(
        node_name=pl.Series([f"n{i}" for i in range(HOSTS + 1)]),
        node_kind=np.asarray([0] * HOSTS + [1], np.uint8),
        node_buffer_bytes=np.zeros(HOSTS + 1),
        node_latency_ns=np.zeros(HOSTS + 1),
        link_src=np.ascontiguousarray(ends[:, 0]),
        link_dst=np.ascontiguousarray(ends[:, 1]),
        link_gbps=np.full(2 * HOSTS, GBPS),
        link_delay_ns=np.full(2 * HOSTS, DELAY_NS),
        link_id=np.arange(HOSTS, dtype=np.uint32),
    )
    src = np.arange(HOSTS)
    traffic = sends(src, (src + 1) % HOSTS, packets * MTU)
    options = rocev2(forwarding="store-and-forward")
    result = simulate_packets(network, traffic, options)
    return float(result.flows["finish_us"].max()) * 1e3, result.counters["cpu_s"]  # type: ignore[arg-type]


def main() -> None:
    """Print both speeds in data packet-hops per CPU second and their ratio."""
    try:
        import_module("simpy")
    except ImportError:
        print("simpy is not installed: pip install simpy")
        sys.exit(3)
    slow_ns, slow_s = in_simpy(PACKETS)
    fast_ns, fast_s = in_engine(100 * PACKETS)
    check_ns, _ = in_engine(PACKETS)
    slow, fast = 2 * HOSTS * PACKETS / slow_s, 2 * HOSTS * 100 * PACKETS / fast_s
    assert abs(slow_ns - check_ns) < 1, "the two do not simulate the same thing"
    print(f"last packet: simpy {slow_ns:.2f} ns, engine {check_ns:.2f} ns")
    print(f"simpy {slow:,.0f} hops/s, engine {fast:,.0f} hops/s: {fast / slow:,.0f} times as many")
    print(f"(engine's {100 * PACKETS} packets per flow end at {fast_ns / 1e3:.1f} us)")


if __name__ == "__main__":
    main()

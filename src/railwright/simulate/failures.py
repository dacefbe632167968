"""What is broken in a network: ``--fail`` texts become masks, slower links, and things that happen during the run.

``leaf:rail3-leaf1`` (also ``spine:``, ``core:``, ``switch:``, or ``node:`` for any node) takes a switch out, ``plane:2`` all
switches of a plane, ``link:17`` a cable by the plan's link id, ``link:A--B`` all cables between two nodes, ``nic:NODE`` the
cables of an endpoint to the fabric, and ``random:2%`` that share of the cables between switches, drawn with the run's seed.
``@50%`` behind a link or adapter leaves that share of its rate instead; ``@2ms`` behind anything lets it happen then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError, nearest
from railwright.simulate.network import HOST, SCALE_UP, SWITCH, Network
from railwright.units import parse_fraction, parse_us

_SWITCH_KINDS = ("leaf", "spine", "core", "switch")
_LINK_KINDS = ("link", "nic", "random")
KINDS = (*_SWITCH_KINDS, "node", "plane", *_LINK_KINDS)


@dataclass(frozen=True)
class Failure:
    """One thing: ``nodes`` and ``cables`` (numbers) get ``share`` of their rate (0: out) ``at_us`` into the run."""

    text: str
    nodes: NDArray[np.int64]
    cables: NDArray[np.int64]
    share: float
    at_us: float


@dataclass(frozen=True)
class Condition:
    """The state of a network at one time: which nodes and directed links work, and the rate of every link in Gb/s."""

    node_up: NDArray[np.bool_]
    link_up: NDArray[np.bool_]
    gbps: NDArray[np.float64]

    @property
    def failed_links(self) -> NDArray[np.int64]:
        """Directed links that are out."""
        return np.flatnonzero(~self.link_up)

    @property
    def failed_nodes(self) -> NDArray[np.int64]:
        """Nodes that are out."""
        return np.flatnonzero(~self.node_up)


def parse_failures(texts: Sequence[str], network: Network, seed: int = 0) -> list[Failure]:
    """Return the failures of ``texts``; raises InputError with the text, what it means and the nearest name."""
    return [_parse(text, network, seed + number) for number, text in enumerate(texts)]


def condition(network: Network, failures: Sequence[Failure], at_us: float = 0.0) -> Condition:
    """Return the state of ``network`` after everything that happens up to ``at_us`` (at the start: 0)."""
    state = Condition(
        np.ones(network.node_kind.size, np.bool_), np.ones(network.link_gbps.size, np.bool_), network.link_gbps.copy()
    )
    for failure in failures:
        if failure.at_us > at_us:
            continue
        state.node_up[failure.nodes] = False
        directed = np.concatenate([2 * failure.cables, 2 * failure.cables + 1])
        state.gbps[directed] *= failure.share
        state.link_up[directed] &= failure.share > 0
    dead = ~state.node_up
    state.gbps[~state.link_up | dead[network.link_src] | dead[network.link_dst]] = 0.0
    return state


def broken(network: Network, failures: Sequence[Failure]) -> Network:
    """Return ``network`` with the links that are slower from the start at their lower rate (those that are out keep theirs)."""
    gbps = condition(network, failures).gbps
    return replace(network, link_gbps=np.where(gbps > 0, gbps, network.link_gbps))


def times_us(failures: Sequence[Failure]) -> list[float]:
    """Return when something happens during the run, in order."""
    return sorted({failure.at_us for failure in failures if failure.at_us > 0})


def _parse(text: str, network: Network, seed: int) -> Failure:
    kind, separator, rest = text.partition(":")
    if not separator or kind not in KINDS:
        hint = nearest(kind, KINDS)
        raise InputError(
            f"{text!r} is not a failure{hint}; write for example leaf:rail3-leaf1, link:17@50%, random:2% "
            f"(kinds: {', '.join(KINDS)})",
            key="fail",
        )
    subject, *suffixes = rest.split("@")
    share, at_us = 0.0, 0.0
    for suffix in suffixes:
        try:
            if suffix.endswith("%"):
                share = parse_fraction(suffix)
            else:
                at_us = parse_us(suffix)
        except ValueError as error:
            raise InputError(f"{text!r}: {error}", key="fail") from None
    if not 0 <= share < 1 or not at_us >= 0:
        raise InputError(f"{text!r}: a share is from 0% to below 100%, a time 0 or more", key="fail")
    if share and kind not in _LINK_KINDS:
        raise InputError(f"{text!r}: only a link or an adapter can run at a part of its rate", key="fail")
    none = np.zeros(0, np.int64)
    if kind in ("link", "nic", "random"):
        cables = {"link": _cables, "nic": _adapter, "random": _random}[kind](subject, text, network, seed)
        return Failure(text, none, cables, share, at_us)
    nodes = _plane(subject, text, network) if kind == "plane" else np.array([_node(kind, subject, text, network)])
    return Failure(text, nodes, none, share, at_us)


def _node(kind: str, name: str, text: str, network: Network) -> int:
    found = np.flatnonzero((network.node_name == name).to_numpy())
    if not found.size:
        wanted = network.node_kind == SWITCH if kind in _SWITCH_KINDS else network.node_kind != SCALE_UP
        known = network.node_name.gather(np.flatnonzero(wanted)).to_list()
        raise InputError(f"{text!r}: there is no {kind} {name!r}{nearest(name, known)}", key="fail")
    node = int(found[0])
    if kind in _SWITCH_KINDS and network.node_kind[node] != SWITCH:
        raise InputError(f"{text!r}: {name} is not a switch; nic:{name} takes its adapter out", key="fail")
    others = [other for other in ("leaf", "spine", "core") if other != kind and other in name]
    if kind in ("leaf", "spine", "core") and kind not in name and others:
        raise InputError(f"{text!r}: {name} is a {others[0]}; write {others[0]}:{name}", key="fail")
    return node


def _plane(subject: str, text: str, network: Network) -> NDArray[np.int64]:
    nodes = np.flatnonzero(network.node_name.str.starts_with(f"plane{subject}-").to_numpy())
    if not nodes.size:
        planes = network.node_name.str.extract(r"^plane(\d+)-").drop_nulls().unique().sort().to_list()
        known = f"there are planes {', '.join(planes)}" if planes else "this network has no planes"
        raise InputError(f"{text!r}: there is no plane {subject!r}; {known}", key="fail")
    return nodes


def _fabric_cables(network: Network) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = network.node_kind == SCALE_UP
    return ~(inside[network.link_src[::2]] | inside[network.link_dst[::2]])


def _cables(subject: str, text: str, network: Network, _seed: int) -> NDArray[np.int64]:
    fabric = _fabric_cables(network)
    if subject.isdecimal():
        found = np.flatnonzero((network.link_id == int(subject)) & fabric)
        if not found.size:
            known = network.link_id[fabric]
            raise InputError(
                f"{text!r}: there is no link {subject}; ids are from {known.min()} to {known.max()}", key="fail"
            )
        return found
    ends = subject.split("--")
    if len(ends) != 2:
        raise InputError(f"{text!r}: write link:ID or link:NAME--NAME", key="fail")
    a, b = (_node("node", name, text, network) for name in ends)
    src, dst = network.link_src[::2], network.link_dst[::2]
    found = np.flatnonzero(((src == a) & (dst == b)) | ((src == b) & (dst == a)))
    if not found.size:
        raise InputError(f"{text!r}: no cable joins {ends[0]} and {ends[1]}", key="fail")
    return found


def _adapter(subject: str, text: str, network: Network, _seed: int) -> NDArray[np.int64]:
    node = _node("node", subject, text, network)
    if network.node_kind[node] != HOST:
        raise InputError(f"{text!r}: {subject} is a switch; nic: takes an endpoint", key="fail")
    here = (network.link_src[::2] == node) | (network.link_dst[::2] == node)
    return np.flatnonzero(here & _fabric_cables(network))


def _random(subject: str, text: str, network: Network, seed: int) -> NDArray[np.int64]:
    try:
        share = parse_fraction(subject)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}", key="fail") from None
    if not 0 < share < 1:
        raise InputError(f"{text!r}: the share of cables is above 0% and below 100%", key="fail")
    kind = network.node_kind
    between = np.flatnonzero((kind[network.link_src[::2]] == SWITCH) & (kind[network.link_dst[::2]] == SWITCH))
    if not between.size:
        raise InputError(
            f"{text!r}: this network has no cable between switches; take out a nic: or a leaf:", key="fail"
        )
    count = max(1, round(share * between.size))
    return np.sort(np.random.default_rng(seed).choice(between, count, replace=False))


def describe(failures: Sequence[Failure], network: Network) -> pl.DataFrame:
    """Return one row per failure: text, nodes, cables, share, at_us, endpoints (those left without any working fabric link)."""
    rows = []
    for failure in failures:
        state = condition(network, [replace(failure, at_us=0.0)])
        fabric = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] == SWITCH)
        had = np.bincount(network.link_src[fabric], minlength=network.hosts)
        left = np.bincount(network.link_src[fabric & (state.gbps > 0)], minlength=network.hosts)
        cut = int(np.count_nonzero((had > 0) & (left == 0)))
        rows.append((failure.text, failure.nodes.size, failure.cables.size, failure.share, failure.at_us, cut))
    schema = {
        "text": pl.String,
        "nodes": pl.UInt32,
        "cables": pl.UInt32,
        "share": pl.Float64,
        "at_us": pl.Float64,
        "endpoints": pl.UInt32,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")

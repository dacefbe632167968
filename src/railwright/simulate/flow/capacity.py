"""What acknowledgements and congestion control take from each link, for the traffic of one run.

Packets are acknowledged the other way: a cable that is busy both ways has the share

    forward / (forward + ack * back)

of a direction's rate left for data, with the bytes of the whole run each way and ``ack`` of `goodput`. That is exact where both
directions are busy at the same time (rings, exchanges) and up to ``ack`` (2 % of RoCEv2) too slow where they take turns.
Adapters may acknowledge many packets at once, so that a run counts them only when told so (the packet engine acknowledges every
packet).

Links that several senders fill lose what congestion control leaves unused: into an endpoint ``incast_share``, between switches
``spread_share``. It is lost at full load only, and only there a link's capacity matters. Senders that fill a link at different
times count as several. Where the links between switches are as busy as the link into an endpoint (an all-to-all over a
non-blocking fabric) both lose ``spread_share``: with endpoints that are a little faster than the fabric the ranks of a fluid
all-to-all drift apart, which packets do not do (1,024 GPUs, 64 KiB to each peer: 56 % too slow instead of 7 % too fast).
"""

import numpy as np
from numpy.typing import NDArray

from railwright.simulate.goodput import Goodput
from railwright.simulate.network import HOST, SCALE_UP, SWITCH, Network
from railwright.simulate.paths import Paths

_ALIKE = 0.9
"""Links between switches count as busy as one into an endpoint from this share of its time on; an assumption of ours."""
_DIGITS = 9
"""Shares are rounded, so that alike links keep equal capacities whatever the order of summation."""


def shares_left(
    network: Network,
    paths: Paths,
    src: NDArray[np.integer],
    load: NDArray[np.float64],
    goodput: Goodput,
    *,
    acknowledged: bool,
) -> NDArray[np.float64]:
    """Return the share of each directed link's payload rate that is left for data (float64, 2m).

    Per path (n): ``src`` is the sender, ``load`` the bytes that it sends in all. ``acknowledged``: count the
    acknowledgements of every packet.
    """
    links = network.link_gbps.size
    controlled = goodput.incast_share < 1 or goodput.spread_share < 1
    if not (acknowledged or controlled):
        return np.ones(links)
    number = paths.stands_for[paths.link]
    counts = np.diff(paths.offset)
    left = np.ones(links)
    alike = np.maximum(np.bincount(paths.stands_for, minlength=links), 1)
    summed = np.bincount(number, paths.share * np.repeat(load, counts), links)
    carried = (summed / alike)[paths.stands_for]
    if acknowledged:
        back = carried[np.arange(links) ^ 1]
        inside = (network.node_kind[network.link_src] == SCALE_UP) | (network.node_kind[network.link_dst] == SCALE_UP)
        busy = ~inside & (carried > 0)
        left[busy] = carried[busy] / (carried[busy] + goodput.ack_share * back[busy])
    if controlled:
        left *= _control(network, number, np.repeat(src, counts), carried, goodput)[paths.stands_for]
    return np.round(left, _DIGITS)


def _control(
    network: Network,
    link: NDArray[np.integer],
    sender: NDArray[np.integer],
    carried: NDArray[np.float64],
    goodput: Goodput,
) -> NDArray[np.float64]:
    """Return what congestion control leaves of each link on which ``sender`` of more than one kind appear.

    ``carried``: bytes of the whole run per directed link.
    """
    one = np.zeros(network.link_gbps.size, sender.dtype)
    one[link] = sender
    several = np.bincount(link[sender != one[link]], minlength=one.size) > 0
    from_switch = network.node_kind[network.link_src] == SWITCH
    share = np.ones(one.size)
    into = several & from_switch & (network.node_kind[network.link_dst] == HOST)
    between = several & from_switch & (network.node_kind[network.link_dst] == SWITCH)
    time = carried / network.link_gbps
    busiest = time[between].max(initial=0.0)
    share[into] = np.where(
        busiest >= _ALIKE * time[into], min(goodput.incast_share, goodput.spread_share), goodput.incast_share
    )
    share[between] = goodput.spread_share
    return share

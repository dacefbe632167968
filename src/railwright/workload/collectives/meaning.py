"""What the size and the bandwidth of a collective mean: those of nccl-tests, in decimal GB/s (1e9 bytes per second).

``size`` is the larger of the two buffers of a rank: the receive buffer of an all-gather, the send buffer of a reduce-scatter
(so that every rank contributes or keeps ``size / n``), and for an all-to-all the whole buffer, of which ``size / n`` goes to
each rank. ``algbw = size / time``; ``busbw = algbw * factor`` is what each rank's port must carry in one direction if no
switch computes. Source: nccl-tests, doc/PERFORMANCE.md.
"""

from railwright.errors import InputError, nearest

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "broadcast",
    "reduce",
    "all-to-all",
    "send-recv",
)


def collective_name(text: str) -> str:
    """Return the canonical name of ``AllReduce``, ``all_reduce_perf``, ``alltoall`` …; raises InputError."""
    plain = "".join(letter for letter in text.lower().removesuffix("_perf") if letter.isalpha())
    for name in COLLECTIVES:
        if plain == name.replace("-", ""):
            return name
    raise InputError(
        f"collective {text!r} is unknown{nearest(text.lower().replace('_', '-'), COLLECTIVES)}; "
        f"choose one of {', '.join(COLLECTIVES)}",
        key="collective",
    )


def bus_factor(collective: str, ranks: int) -> float:
    """Return busbw / algbw: 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, else 1."""
    if collective == "all-reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("all-gather", "reduce-scatter", "all-to-all"):
        return (ranks - 1) / ranks
    return 1.0

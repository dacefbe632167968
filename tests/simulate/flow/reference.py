"""A slow flow simulator to compare with: progressive filling from scratch at every event, plain Python objects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

Path = Sequence[tuple[int, float]]
"""Links of a path, each with the share of the flow that it carries."""


def fair_rates(
    capacity: Sequence[float],
    paths: Sequence[Path],
    weight: Sequence[float],
    cap: Sequence[float],
    priority: Sequence[int],
) -> list[float]:
    """Return weighted max-min fair rates: raise all open flows together, close those whose link or cap is met, repeat."""
    rates = [0.0] * len(paths)
    left = list(capacity)
    for level in sorted(set(priority)):
        open_ = {i for i in range(len(paths)) if priority[i] == level}
        while open_:
            units = [0.0] * len(left)
            for i in open_:
                for link, share in paths[i]:
                    units[link] += share * weight[i]
            steps = [max(0.0, left[link]) / units[link] if units[link] > 0 else math.inf for link in range(len(left))]
            step = min(
                min(steps, default=math.inf),
                min((cap[i] - rates[i]) / weight[i] for i in open_),
            )
            if step == math.inf:
                for i in open_:
                    rates[i] = math.inf
                break
            for i in open_:
                rates[i] += step * weight[i]
                for link, share in paths[i]:
                    left[link] -= step * share * weight[i]
            full = {link for link in range(len(left)) if steps[link] <= step * (1 + 1e-12)}
            closed = {i for i in open_ if any(link in full for link, _ in paths[i]) or rates[i] >= cap[i] * (1 - 1e-12)}
            open_ -= closed
    return rates


@dataclass
class Op:
    """A send (``path`` given) or a timed operation; ``waits`` are (operation, lag) with lag -1 whole, 0 same, 1 before,
    -2 whole and ``handover`` after its last byte left."""

    amount: float
    path: Path | None = None
    latency: float = 0.0
    start: float = 0.0
    repeat: int = 1
    weight: float = 1.0
    cap: float = math.inf
    priority: int = 0
    handover: float = 0.0
    waits: list[tuple[int, int]] = field(default_factory=list)


def simulate(capacity: Sequence[float], ops: Sequence[Op]) -> list[tuple[float, float]]:
    """Return (start, finish) of every operation, NaN for one that never finishes."""
    now = 0.0
    sent, arrived = [0] * len(ops), [0] * len(ops)
    moving: dict[int, float] = {}
    timed: dict[int, float] = {}
    under_way: list[tuple[float, int]] = []
    start, finish = [math.nan] * len(ops), [math.nan] * len(ops)
    free = [math.inf] * len(ops)

    def may_begin(i: int) -> bool:
        if i in moving or i in timed or sent[i] == ops[i].repeat or now < ops[i].start - 1e-9:
            return False
        for on, lag in ops[i].waits:
            if lag == -2:
                if free[on] > now + 1e-9:
                    return False
                continue
            needed = ops[on].repeat if lag < 0 else sent[i] + 1 - lag
            if arrived[on] < needed:
                return False
        return True

    while True:
        progress = True
        while progress:
            progress = False
            for i, op in enumerate(ops):
                if may_begin(i):
                    progress = True
                    if math.isnan(start[i]):
                        start[i] = now
                    if op.path is None:
                        timed[i] = now + op.amount
                    else:
                        moving[i] = op.amount
            for when, i in [entry for entry in under_way if entry[0] <= now + 1e-9]:
                under_way.remove((when, i))
                arrived[i] += 1
                finish[i] = when if arrived[i] == ops[i].repeat else finish[i]
                progress = True
            for i in [i for i, left in moving.items() if left <= 0 or (not ops[i].path and ops[i].cap == math.inf)]:
                del moving[i]
                sent[i] += 1
                free[i] = now + ops[i].handover if sent[i] == ops[i].repeat else free[i]
                under_way.append((now + ops[i].latency, i))
                progress = True
            for i in [i for i, when in timed.items() if when <= now + 1e-9]:
                del timed[i]
                sent[i] += 1
                free[i] = now + ops[i].handover if sent[i] == ops[i].repeat else free[i]
                under_way.append((now, i))
                progress = True
        active = list(moving)
        rates = fair_rates(
            capacity,
            [ops[i].path or [] for i in active],
            [ops[i].weight for i in active],
            [ops[i].cap for i in active],
            [ops[i].priority for i in active],
        )
        ends = [moving[i] / rate for i, rate in zip(active, rates, strict=True) if rate > 0]
        later = [op.start - now for i, op in enumerate(ops) if op.start > now + 1e-9 and math.isnan(start[i])]
        step = min(
            [
                *ends,
                *later,
                *(when - now for when in free if now + 1e-9 < when < math.inf),
                *(when - now for when in timed.values()),
                *(when - now for when, _ in under_way),
            ],
            default=math.inf,
        )
        if step == math.inf:
            return list(zip(start, finish, strict=True))
        for i, rate in zip(active, rates, strict=True):
            moving[i] -= rate * step
            if moving[i] <= 1e-9 * ops[i].amount + rate * 1e-8:
                moving[i] = 0.0
        now += step

"""Windows of sends: when a sender that has several messages in flight may start the next one.

A row that waits for an earlier row of the same sender waits for a place in its window, not for data (rings excepted: there the
next chunk waits for the one before). In a crowd packets get out
of step: while one message's last byte is on its way, the others of the window keep the adapter busy. Equal shares keep alike
messages in step for ever: all of a window end together, and the next ones would start together, a path's delay later. So the
next message of a window of ``w`` messages of ``m`` bytes at rate ``c`` starts

    max(0, delay - (w - 1) m / c)

after the last byte of the one before has left: a window as large as rate times delay hides the delay, one of a single message
waits for the arrival as the table says. With it the flow engine meets the packet engine on all-to-alls of small messages, where
starts in step were 17 to 24 % too slow (``docs/validation.md``). Wrong for a lone sender to idle receivers, whose packets stay in
step: up to one delay per window too fast.
"""

import numpy as np
from numpy.typing import NDArray

from railwright.simulate.flow.columns import BEFORE, WHOLE, Operations

LEFT = -2
"""Lag of a wait for a place in the sender's window, as in `native/flow/schedule.hpp`."""


def windows(
    ops: Operations, wire: NDArray[np.int64], alone_us: NDArray[np.float64], delay_us: NDArray[np.float64]
) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Return the lag of every wait of ``ops`` (int8) and per row the time from the last byte to a free place (us).

    Per row (n): ``wire`` tells apart the ports that a sender sends by, ``alone_us`` is how long all its bytes take without
    others, ``delay_us`` the latency of its path.
    """
    row = np.repeat(np.arange(ops.count), np.diff(ops.wait_offset))
    on = ops.wait_op.astype(np.int64)
    own = (ops.wait_lag == WHOLE) & ops.sends[row] & ops.sends[on]
    own &= (ops.src[row] == ops.src[on]) & (wire[row] == wire[on])
    ring = np.zeros(ops.count, np.bool_)
    ring[row[ops.wait_lag == BEFORE]] = True
    own &= ~ring[row] & ~ring[on]
    lag = np.where(own, LEFT, ops.wait_lag).astype(np.int8)
    if not own.any():
        return lag, np.zeros(ops.count)
    first = ops.sends.copy()
    first[row[own]] = False
    port = ops.src * (int(wire.max(initial=0)) + 1) + wire
    width = np.bincount(port[first], minlength=int(port.max()) + 1)[port]
    return lag, np.where(ops.sends, np.maximum(0.0, delay_us - np.maximum(width - 1, 0) * alone_us), 0.0)

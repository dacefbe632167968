"""Where every box stands: racks, rows and rack units, from what a rack can bear."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray


@dataclass(frozen=True)
class Layout:
    """The racks (table ``racks``) and, for each device in id order, its rack id and lowest rack unit (from 1, 0 = none)."""

    racks: pl.DataFrame
    rack: NDArray[np.uint32]
    ru: NDArray[np.uint16]

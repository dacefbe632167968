"""The same traffic several times over: iterations of a job with a barrier between them, as a benchmark loop runs."""

import numpy as np
import polars as pl

from railwright.tables import conform
from railwright.workload.traffic import merge


def repeated(table: pl.DataFrame, times: int) -> pl.DataFrame:
    """Return ``table`` so many times, each run begun when the whole one before has ended (a barrier between them)."""
    if times == 1:
        return table
    rounds = merge([table] * times)
    ops = table.height
    barriers = pl.DataFrame(
        {
            "op_id": np.arange(times - 1, dtype=np.uint32) + np.uint32(rounds.height),
            "job": [table["job"][0]] * (times - 1),
            "class": [str(table["class"][0])] * (times - 1),
            "after": [rounds["op_id"][number * ops : (number + 1) * ops].to_list() for number in range(times - 1)],
        }
    ).with_columns(
        kind=pl.lit("barrier"),
        direction=pl.lit("east_west"),
        src=pl.lit(0),
        dst=pl.lit(0),
        bytes=pl.lit(0.0),
        duration_us=pl.lit(0.0),
        repeat=pl.lit(1),
        start_us=pl.lit(0.0),
    )
    which = pl.Series(np.repeat(np.arange(times), ops))
    first = (pl.col("after").list.len() == 0) & (which > 0)
    gate = pl.Series(np.maximum(np.repeat(np.arange(times), ops) - 1, 0) + rounds.height, dtype=pl.UInt32)
    chained = rounds.with_columns(after=pl.when(first).then(pl.concat_list(gate)).otherwise("after"))
    return pl.concat([chained, conform("traffic", barriers)])

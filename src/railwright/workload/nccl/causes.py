"""Why a run of nccl-tests is not what it should be: one function per cause, each from what the log shows.

A cause has the code of an entry of ``data/verdicts.yaml``, the evidence with line numbers, and how sure it is: ``certain`` (NCCL
says so), ``likely`` (the numbers fit only this), ``possible`` (the numbers fit this and more).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from railwright.units import format_bytes
from railwright.workload.nccl.choose import candidates
from railwright.workload.nccl.constants import read_data
from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.facts import Evidence
from railwright.workload.nccl.log import Run
from railwright.workload.nccl.shape import JobShape

SLOW = 0.8
"""Below this share of the expectation a large message is slow: healthy measurements lie within 10 % (docs/collectives.md)."""

SLOW_START = 0.4
"""The same for messages bound by latency, which the model knows to a factor of about two; between, the bound rises evenly."""

_FAILING = (
    "ibv_modify_qp",
    "ibv_create_qp",
    "completion",
    "ibv_poll_cq",
    "retry",
    "Connection timed out",
    "unreachable",
)


@dataclass(frozen=True)
class Cause:
    """One finding about a run."""

    code: str
    title: str
    confidence: str
    evidence: tuple[str, ...]
    tries: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A run with what was expected.

    ``sizes`` as in `verdict.Verdict`, ``wanted`` the shape asked for, ``shape`` that of the log, ``alone`` how many processes ran
    a job of their own.
    """

    run: Run
    collective: str | None
    wanted: JobShape
    shape: JobShape
    sizes: pl.DataFrame
    alone: int

    @property
    def large(self) -> pl.DataFrame:
        """The sizes that are not bound by latency."""
        return self.sizes.filter(pl.col("limit") != "latency")

    def seen(self, *keys: str) -> tuple[str, ...]:
        """Lines of the log that NCCL wrote about ``keys``."""
        return tuple(str(self.run.facts.seen[key]) for key in keys if key in self.run.facts.seen)


Found = tuple[str, tuple[str, ...]] | None
"""What a test of a cause gives: confidence and evidence, or None."""


def _corrupt(case: Case) -> Found:
    wrong = case.run.rows.filter(pl.col("wrong") > 0)
    old = wrong.filter(pl.col("wrong") < 1)
    count = case.run.out_of_bounds or 0
    if count == 0 and (wrong.height == 0 or old.height == wrong.height):
        return None
    lines = [
        f"line {row['line']}: {row['wrong']:g} wrong elements at {format_bytes(row['size_bytes'])}"
        for row in wrong.filter(pl.col("wrong") >= 1).head(3).iter_rows(named=True)
    ]
    return "certain", (*lines, *([f"{count} out-of-bounds values in the closing lines"] if count else []))


def _not_one_job(case: Case) -> Found:
    if case.alone < 2:
        return None
    return "certain", (
        f"{case.alone} tables of one rank each, begun together (the first at line {case.run.first_line})",
    )


def _no_result(case: Case) -> Found:
    if case.run.rows.height:
        return None
    warnings = tuple(str(warning) for warning in case.run.facts.warnings[:3])
    return "certain", warnings or (f"line {case.run.first_line}: a header and no row after it",)


def _failures(case: Case) -> list[Evidence]:
    return [
        warning
        for warning in case.run.facts.warnings
        if any(word.lower() in warning.text.lower() for word in _FAILING) and "socket" not in warning.text.lower()
    ]


def _rdma_errors(case: Case) -> Found:
    failures = _failures(case)
    if not failures or case.run.facts.via.get("socket"):
        return None
    return "certain", tuple(str(warning) for warning in failures[:3])


def _sockets(case: Case) -> Found:
    facts = case.run.facts
    if case.wanted.transport == "socket":
        return None
    if (facts.network or "").lower() == "socket" or facts.via.get("socket"):
        failures = tuple(str(warning) for warning in _failures(case)[:2])
        return "certain", (*case.seen("no_device", "network", "socket", "NCCL_IB_DISABLE", "NCCL_NET"), *failures)
    large = case.large
    if facts.silent and case.shape.nodes > 1 and large.height and _number(large["ratio"].max()) < 0.15:
        best = _number(large["busbw_gbytes_s"].max())
        return "possible", (
            f"at most {best:.3g} GB/s where {_number(large['expected_gbytes_s'].max()):.0f} are expected",
        )
    return None


def _no_gdr(case: Case) -> Found:
    via = case.run.facts.via
    if not case.wanted.gdr or not via.get("host") or via.get("gdr"):
        return None
    return "certain", case.seen("host", "NCCL_NET_GDR_LEVEL")


def _one_host(case: Case) -> Found:
    if case.wanted.nodes < 2 or case.shape.nodes > 1 or case.run.size < 2:
        return None
    hosts = case.run.ranks["host"].unique().to_list()
    where = f"all {case.run.size} ranks are on {hosts[0]}" if len(hosts) == 1 else f"{case.run.size} ranks on one node"
    return "certain", (where, *case.seen("shape"))


def _no_nvlink(case: Case) -> Found:
    via = case.run.facts.via
    if not case.wanted.nvlink_gbytes_s or not via.get("shm") or via.get("p2p"):
        return None
    return "certain", case.seen("shm", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")


def _missing_adapters(case: Case) -> Found:
    named = sum(1 + name.count("+") for name in case.run.facts.adapters)
    if case.shape.nodes < 2 or not named or named >= case.wanted.nics_per_node or case.run.facts.via.get("socket"):
        return None
    return "certain", (
        f"{named} adapters where a server has {case.wanted.nics_per_node}",
        *case.seen("adapters", "NCCL_IB_HCA"),
    )


def _wrong_algorithm(case: Case) -> Found:
    slow = case.large.filter(pl.col("verdict") == "slow")
    if case.collective is None or slow.height < max(2, case.large.height // 2):
        return None
    expected = str(slow["algorithm"].mode()[0])
    used = _used(case, slow)
    if used and used[0] != expected:
        return "certain", (
            f"{used[0]} where {expected} is expected",
            *case.seen("choice", "NCCL_ALGO", "NCCL_NVLS_ENABLE", "nvls"),
        )
    if case.run.facts.variables.get("NCCL_ALGO"):
        return "likely", case.seen("NCCL_ALGO")
    every = candidates(case.collective, slow["size_bytes"].to_numpy(), case.shape, Environment())
    others = every.filter(pl.col("reason").is_null() & (pl.col("algorithm") != expected))
    for _, rows in others.with_columns(pl.format("{}/{}", "algorithm", "protocol").alias("name")).group_by(
        "name", maintain_order=True
    ):
        share = slow["busbw_gbytes_s"].to_numpy() / rows["busbw_gbytes_s"].to_numpy()
        if abs(float(np.median(share)) - 1) < 0.06 and float(np.ptp(share)) < 0.2:
            return "likely", (
                f"the rates are those of {rows['name'][0]}, not of {expected}",
                *case.seen("nvls", "channels"),
            )
    return None


def _used(case: Case, slow: pl.DataFrame) -> list[str]:
    """Return the algorithm that NCCL names most for the slow sizes."""
    choices = case.run.facts.choices
    parts = case.shape.ranks if case.collective in ("all-gather", "reduce-scatter") else 1
    matching = choices.filter((pl.col("bytes") * parts).is_in(slow["size_bytes"].implode()))
    return matching["algorithm"].mode().sort().to_list()[:1]


def _cliff(case: Case) -> Found:
    large = case.large
    if large.height < 3:
        return None
    busbw, ratio = large["busbw_gbytes_s"].to_numpy(), large["ratio"].to_numpy()
    peak = np.maximum.accumulate(busbw)
    fallen = np.flatnonzero((busbw[1:] < 0.7 * peak[:-1]) & (ratio[1:] < SLOW)) + 1
    if fallen.size == 0 or not bool(np.all(busbw[fallen[0] :] < 0.8 * peak[fallen[0] - 1])):
        return None
    first = large.row(int(fallen[0]), named=True)
    return "likely", (
        f"line {first['line']}: from {format_bytes(first['size_bytes'])} on {first['busbw_gbytes_s']:.4g} GB/s or less, "
        f"after {peak[fallen[0] - 1]:.4g} GB/s",
    )


def _plateau(case: Case) -> tuple[float, str] | None:
    """Return the share of the expectation that the three largest sizes level off at, when it is a plateau below it."""
    tail = case.large.tail(3)
    if tail.height < 2:
        return None
    ratio = tail["ratio"].to_numpy()
    middle = float(np.median(ratio))
    if middle >= SLOW or float(np.ptp(ratio)) > 0.2 * middle:
        return None
    last = tail.row(-1, named=True)
    return middle, (
        f"line {last['line']}: {last['busbw_gbytes_s']:.4g} GB/s at {format_bytes(last['size_bytes'])}, "
        f"{middle:.0%} of the {last['expected_gbytes_s']:.4g} GB/s expected, level over the largest sizes"
    )


def _slow_rail(case: Case) -> Found:
    plateau = _plateau(case)
    if plateau is None or case.shape.nodes < 2 or case.collective in ("all-to-all", "send-recv"):
        return None
    near = min((0.5, 0.25, 0.75), key=lambda share: abs(share - plateau[0]))
    fits = abs(near - plateau[0]) < 0.06
    hint = (f"about {near:.0%}: as with one port or PCIe link at {near:.0%} of its rate",) if fits else ()
    return "likely" if fits else "possible", (plateau[1], *hint)


def _slow_nvlink(case: Case) -> Found:
    plateau = _plateau(case)
    return ("possible", (plateau[1],)) if plateau and case.shape.nodes == 1 else None


def _slow_network(case: Case) -> Found:
    plateau = _plateau(case)
    if plateau is None or case.shape.nodes < 2 or case.collective not in ("all-to-all", "send-recv"):
        return None
    return "possible", (plateau[1],)


def _slow_start(case: Case) -> Found:
    small = case.sizes.filter(pl.col("limit") == "latency")
    slow = small.filter(pl.col("ratio") < SLOW_START)
    if small.height < 3 or slow.height <= small.height // 2:
        return None
    worst = slow.sort("ratio").row(0, named=True)
    return "possible", (
        f"line {worst['line']}: {worst['time_us']:.4g} us at {format_bytes(worst['size_bytes'])}, "
        f"{worst['expected_us']:.4g} us expected",
    )


def _unstable(case: Case) -> Found:
    rows = case.run.rows.filter(pl.col("size_bytes").is_in(case.large["size_bytes"].implode()))
    pairs = (
        rows.group_by("size_bytes", maintain_order=True)
        .agg(
            pl.col("busbw_gbytes_s").min().alias("low"),
            pl.col("busbw_gbytes_s").max().alias("high"),
            pl.col("line").first(),
        )
        .filter((pl.col("high") > 0) & (pl.col("low") < 0.7 * pl.col("high")))
    )
    if pairs.height < 3:
        return None
    return "likely", tuple(
        f"line {row['line']}: {row['low']:.4g} and {row['high']:.4g} GB/s at {format_bytes(row['size_bytes'])}"
        for row in pairs.head(3).iter_rows(named=True)
    )


def _test_failed(case: Case) -> Found:
    own = [
        stop for stop in case.run.stops if any(word in stop.text for word in ("failure", "timeout", "out of memory"))
    ]
    if case.run.complete or not own:
        return None
    return "certain", tuple(str(stop) for stop in own[:3])


def _truncated(case: Case) -> Found:
    run = case.run
    if run.complete or not run.rows.height:
        return None
    last = f"the last row is line {_number(run.rows['line'].max()):.0f}, {format_bytes(_number(run.rows['size_bytes'].max()))}"
    asked = (f"sizes up to {format_bytes(run.max_bytes)} were asked for",) if run.max_bytes else ()
    closing = ("there is no line 'Avg bus bandwidth'",) if run.average_busbw is None else ()
    return "certain", (last, *asked, *closing, *(str(stop) for stop in run.stops[:2]))


_TESTS: Mapping[str, Callable[[Case], Found]] = {
    "corrupt": _corrupt,
    "not-one-job": _not_one_job,
    "rdma-errors": _rdma_errors,
    "test-failed": _test_failed,
    "no-result": _no_result,
    "sockets": _sockets,
    "no-gdr": _no_gdr,
    "one-host": _one_host,
    "no-nvlink": _no_nvlink,
    "missing-adapters": _missing_adapters,
    "wrong-algorithm": _wrong_algorithm,
    "cliff": _cliff,
    "slow-rail": _slow_rail,
    "slow-nvlink": _slow_nvlink,
    "slow-network": _slow_network,
    "slow-start": _slow_start,
    "unstable": _unstable,
    "truncated": _truncated,
}

_EXPLAINED_BY: Mapping[str, frozenset[str]] = {
    "slow-rail": frozenset(
        {"sockets", "no-gdr", "missing-adapters", "wrong-algorithm", "cliff", "rdma-errors", "no-nvlink"}
    ),
    "slow-nvlink": frozenset({"wrong-algorithm", "cliff", "no-nvlink"}),
    "slow-network": frozenset({"sockets", "no-gdr", "missing-adapters", "cliff", "rdma-errors"}),
    "slow-start": frozenset({"sockets", "no-gdr", "no-nvlink", "wrong-algorithm"}),
    "wrong-algorithm": frozenset({"sockets", "no-gdr", "no-nvlink", "missing-adapters"}),
    "cliff": frozenset({"sockets"}),
    "test-failed": frozenset({"rdma-errors"}),
    "no-result": frozenset({"rdma-errors", "test-failed"}),
    "one-host": frozenset({"not-one-job", "rdma-errors", "no-result", "test-failed"}),
    "truncated": frozenset({"not-one-job", "no-result", "rdma-errors", "test-failed"}),
}
"""A cause that needs no mention when one of these is found: they explain the same numbers."""


def causes_of(case: Case) -> Iterator[Cause]:
    """Yield the causes that the log shows, heaviest first."""
    texts = read_data("verdicts.yaml")
    found: set[str] = set()
    for code, test in _TESTS.items():
        if found & _EXPLAINED_BY.get(code, frozenset()):
            continue
        result = test(case)
        if result is not None:
            found.add(code)
            confidence, evidence = result
            yield Cause(code, texts[code]["title"], confidence, evidence, tuple(texts[code]["try"]))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

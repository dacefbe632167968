"""IPv4 addresses by the million: pools cut into equal blocks, addresses as integers, text only at the end."""

from dataclasses import dataclass
from ipaddress import IPv4Network

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """An address pool of the spec; ``key`` is where it stands (``addressing.backend``)."""

    key: str
    network: IPv4Network

    @property
    def base(self) -> int:
        """First address as an integer."""
        return int(self.network.network_address)

    @property
    def size(self) -> int:
        """How many addresses there are."""
        return self.network.num_addresses

    def at(self, offset: Index, what: str) -> Index:
        """Return the addresses at ``offset``; raises InputError that says how large the pool must be."""
        self.holds(int(offset.max(initial=-1)) + 1, what)
        return self.base + offset

    def holds(self, needed: int, what: str) -> None:
        """Raise InputError when ``needed`` addresses do not fit."""
        if needed > self.size:
            prefix = 32 - (needed - 1).bit_length()
            raise InputError(
                f"{self.network} is too small: {what} need {needed} addresses, a /{prefix} or larger", key=self.key
            )

    def block(self, number: int, blocks: int) -> "Pool":
        """Return part ``number`` of ``blocks`` equal parts (rounded up to a power of two)."""
        bits = power_of_two(blocks).bit_length() - 1
        if self.network.prefixlen + bits > 30:
            raise InputError(f"{self.network} is too small to be cut into {blocks} parts", key=self.key)
        part = self.network.num_addresses >> bits
        return Pool(self.key, IPv4Network((self.base + number * part, self.network.prefixlen + bits)))


def power_of_two(amount: int) -> int:
    """Return the smallest power of two that is at least ``amount``."""
    return 1 << max(0, amount - 1).bit_length()


def prefix_of(size: int) -> int:
    """Return the prefix length of a subnet of ``size`` addresses (a power of two)."""
    return 32 - (size.bit_length() - 1)


def written(addresses: Index, prefix: int) -> pl.Series:
    """Return integers as ``a.b.c.d/prefix``."""
    number = pl.Series("address", addresses.astype(np.int64))
    octets = [number // 2**shift % 256 for shift in (24, 16, 8, 0)]
    return pl.select(pl.format(f"{{}}.{{}}.{{}}.{{}}/{prefix}", *octets)).to_series().alias("address")

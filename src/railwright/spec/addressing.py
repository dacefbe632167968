"""Which address pools a plan draws from. The defaults are private, do not overlap and hold 100,000 GPUs; see docs/networks.md."""

from ipaddress import IPv4Network
from itertools import combinations
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from railwright import units
from railwright.spec.quantities import Count

FIRST_PRIVATE_ASN = 4_200_000_000
LAST_PRIVATE_ASN = 4_294_967_294


def check_pool(value: str) -> str:
    """Return ``value`` when it is an IPv4 network without host bits; raises ValueError that writes the right one."""
    try:
        return str(IPv4Network(value))
    except ValueError:
        pass
    try:
        right = str(IPv4Network(value, strict=False))
    except ValueError:
        raise ValueError(f"{value!r} is not an IPv4 network; write for example 10.0.0.0/10") from None
    raise ValueError(f"{value!r} has bits set behind its prefix; write {right}")


def check_first_asn(value: int) -> int:
    """Return ``value`` when it is a private 4-byte AS number (RFC 6996); raises ValueError."""
    if not FIRST_PRIVATE_ASN <= value <= LAST_PRIVATE_ASN:
        raise ValueError(
            f"{value} is not a private 4-byte AS number; it must be {FIRST_PRIVATE_ASN} to {LAST_PRIVATE_ASN} (RFC 6996)"
        )
    return value


Pool = Annotated[str, AfterValidator(check_pool)]


class Addressing(BaseModel):
    """IPv4 pools and the first AS number. An address follows from the number of its box or port, so growth keeps it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Pool = Field("10.0.0.0/10", description="Ports of GPU servers on the backend.")
    frontend: Pool = Field("10.64.0.0/10", description="Boxes on the frontend.")
    storage: Pool = Field("10.128.0.0/10", description="Boxes on the storage network.")
    in_band: Pool = Field("10.192.0.0/11", description="In-band management, where it has a network of its own.")
    loopbacks: Pool = Field("10.224.0.0/12", description="Loopbacks of routed boxes.")
    services: Pool = Field("10.240.0.0/16", description="Service addresses on the load balancers.")
    links: Pool = Field("100.64.0.0/10", description="Links between switches, where they are numbered.")
    out_of_band: Pool = Field("172.16.0.0/12", description="Out-of-band management ports.")
    first_asn: Annotated[int, BeforeValidator(units.parse_count), AfterValidator(check_first_asn)] = Field(
        FIRST_PRIVATE_ASN, description="AS number of the first box; private 4-byte numbers from here."
    )
    tenant_blocks: Count = Field(
        16, description="Equal parts of the frontend and storage pools; one for each tenant and one for all others."
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        pools = {name: IPv4Network(getattr(self, name)) for name in POOLS}
        for (one, a), (other, b) in combinations(pools.items(), 2):
            if a.overlaps(b):
                raise ValueError(f"the pools {one} ({a}) and {other} ({b}) overlap; choose networks apart")
        return self


POOLS = ("backend", "frontend", "storage", "in_band", "loopbacks", "services", "links", "out_of_band")

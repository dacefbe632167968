"""The goodput constants that fit a plan's backend: its QoS profile, its path mode, the usual MTU."""

from railwright.design.plan import Plan
from railwright.simulate.goodput import Goodput, calibrated

BALANCING_PATHS = {"ecmp": "ecmp", "ecmp-qp": "ecmp", "flowlet": "flowlet", "adaptive": "adaptive", "spray": "spray"}
"""Path mode of the engines by the plan's load balancing."""


def plan_paths(plan: Plan) -> str:
    """Return the path mode of ``plan``'s backend."""
    return BALANCING_PATHS[str(plan.facts["backend"]["load_balancing"])]


def plan_goodput(plan: Plan, paths: str | None = None) -> Goodput:
    """Return the constants of ``plan``'s backend, with the path mode ``paths`` (default: its own).

    A spec that leaves ``congestion`` out means ``dcqcn+pfc`` for RoCEv2 and ``credits`` for InfiniBand, as `design.qos` has it.
    """
    backend = plan.spec.backend
    asked = backend.congestion if backend.congestion != "credits" else None
    congestion = "credits" if backend.transport == "infiniband" else asked or "dcqcn+pfc"
    return calibrated(congestion, paths or plan_paths(plan))

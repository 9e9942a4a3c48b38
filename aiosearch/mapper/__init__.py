"""Where each piece of a program runs: clusters and patterns, mappings by search, and plans that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .clusterfiles import read_cluster, write_cluster
    from .clusters import Cache, CacheGroup, Cluster, Device, DeviceKind, Distance, Location, Node
    from .costs import CostModel, FaithfulModel
    from .errors import ClusterError, MappingError, PatternError, PlanError
    from .levels import Level, flatten
    from .detecting import detect_cluster
    from .mapped import MappedProgram, map_program
    from .patterns import Access, Array, Call, Kind, Nested, Pattern, PatternProgram, read_program
    from .placing import place
    from .plans import Plan, read_plan
    from .splits import SplitSizes
    from .teams import Team

__all__ = [
    "Access",
    "Array",
    "Cache",
    "CacheGroup",
    "Call",
    "Cluster",
    "ClusterError",
    "CostModel",
    "Device",
    "DeviceKind",
    "Distance",
    "FaithfulModel",
    "Kind",
    "Level",
    "Location",
    "MappedProgram",
    "MappingError",
    "Nested",
    "Node",
    "Pattern",
    "PatternError",
    "PatternProgram",
    "Plan",
    "PlanError",
    "SplitSizes",
    "Team",
    "detect_cluster",
    "flatten",
    "map_program",
    "place",
    "read_cluster",
    "read_plan",
    "read_program",
    "write_cluster",
]

__getattr__ = lazily(
    __name__,
    {
        "read_cluster": ".clusterfiles",
        "write_cluster": ".clusterfiles",
        "Cache": ".clusters",
        "CacheGroup": ".clusters",
        "Cluster": ".clusters",
        "Device": ".clusters",
        "DeviceKind": ".clusters",
        "Distance": ".clusters",
        "Location": ".clusters",
        "Node": ".clusters",
        "detect_cluster": ".detecting",
        "CostModel": ".costs",
        "FaithfulModel": ".costs",
        "ClusterError": ".errors",
        "MappingError": ".errors",
        "PatternError": ".errors",
        "PlanError": ".errors",
        "Level": ".levels",
        "flatten": ".levels",
        "MappedProgram": ".mapped",
        "map_program": ".mapped",
        "Access": ".patterns",
        "Array": ".patterns",
        "Call": ".patterns",
        "Kind": ".patterns",
        "Nested": ".patterns",
        "Pattern": ".patterns",
        "PatternProgram": ".patterns",
        "read_program": ".patterns",
        "place": ".placing",
        "Plan": ".plans",
        "read_plan": ".plans",
        "SplitSizes": ".splits",
        "Team": ".teams",
    },
)

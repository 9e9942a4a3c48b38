"""Where each piece of a program runs: clusters and patterns, mappings by search, and plans that
run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .calibration import measure_mesh
    from .clusterfiles import read_cluster, write_cluster
    from .clusters import (
        CacheGroup,
        CacheLevel,
        Cluster,
        ComputeDevice,
        Distance,
        GroupLocation,
        Node,
        ProcessorKind,
    )
    from .costs import CalibratedModel, FaithfulModel, StepCostModel
    from .detection import detect_cluster
    from .errors import ClusterError, MappingError, PatternError, PlanError
    from .jaxpr_patterns import JaxPatterns, capture_patterns
    from .layouts import MeshCosts
    from .levels import Level, flatten
    from .mapped_program import MappedProgram, map_program
    from .patterns import (
        Access,
        Array,
        Nested,
        Pattern,
        PatternCall,
        PatternKind,
        PatternProgram,
        read_program,
    )
    from .placement import place
    from .plans import PlacementPlan, read_plan
    from .rematerialization import (
        GradientPlan,
        KeepPolicy,
        ShardedGradient,
        fit_gradient,
        shard_gradient,
    )
    from .sharding import ShardingPlan, shard
    from .splits import SplitSizes
    from .teams import Team
    from .workers import TeamProgram, TeamWorkers, WorkerCores, cache_group_teams

__all__ = [
    "Access",
    "Array",
    "CacheGroup",
    "CacheLevel",
    "CalibratedModel",
    "Cluster",
    "ClusterError",
    "ComputeDevice",
    "Distance",
    "FaithfulModel",
    "GradientPlan",
    "GroupLocation",
    "JaxPatterns",
    "KeepPolicy",
    "Level",
    "MappedProgram",
    "MappingError",
    "MeshCosts",
    "Nested",
    "Node",
    "Pattern",
    "PatternCall",
    "PatternError",
    "PatternKind",
    "PatternProgram",
    "PlacementPlan",
    "PlanError",
    "ProcessorKind",
    "ShardedGradient",
    "ShardingPlan",
    "SplitSizes",
    "StepCostModel",
    "Team",
    "TeamProgram",
    "TeamWorkers",
    "WorkerCores",
    "cache_group_teams",
    "capture_patterns",
    "detect_cluster",
    "fit_gradient",
    "flatten",
    "map_program",
    "measure_mesh",
    "place",
    "read_cluster",
    "read_plan",
    "read_program",
    "shard",
    "shard_gradient",
    "write_cluster",
]

__getattr__ = lazily(
    __name__,
    {
        "measure_mesh": ".calibration",
        "read_cluster": ".clusterfiles",
        "write_cluster": ".clusterfiles",
        "CacheLevel": ".clusters",
        "CacheGroup": ".clusters",
        "Cluster": ".clusters",
        "ComputeDevice": ".clusters",
        "ProcessorKind": ".clusters",
        "Distance": ".clusters",
        "GroupLocation": ".clusters",
        "Node": ".clusters",
        "detect_cluster": ".detection",
        "StepCostModel": ".costs",
        "CalibratedModel": ".costs",
        "FaithfulModel": ".costs",
        "ClusterError": ".errors",
        "MappingError": ".errors",
        "PatternError": ".errors",
        "PlanError": ".errors",
        "JaxPatterns": ".jaxpr_patterns",
        "capture_patterns": ".jaxpr_patterns",
        "Level": ".levels",
        "flatten": ".levels",
        "MappedProgram": ".mapped_program",
        "map_program": ".mapped_program",
        "Access": ".patterns",
        "Array": ".patterns",
        "PatternCall": ".patterns",
        "PatternKind": ".patterns",
        "Nested": ".patterns",
        "Pattern": ".patterns",
        "PatternProgram": ".patterns",
        "read_program": ".patterns",
        "place": ".placement",
        "PlacementPlan": ".plans",
        "read_plan": ".plans",
        "MeshCosts": ".layouts",
        "GradientPlan": ".rematerialization",
        "KeepPolicy": ".rematerialization",
        "ShardedGradient": ".rematerialization",
        "fit_gradient": ".rematerialization",
        "shard_gradient": ".rematerialization",
        "ShardingPlan": ".sharding",
        "shard": ".sharding",
        "SplitSizes": ".splits",
        "Team": ".teams",
        "TeamProgram": ".workers",
        "TeamWorkers": ".workers",
        "WorkerCores": ".workers",
        "cache_group_teams": ".workers",
    },
)

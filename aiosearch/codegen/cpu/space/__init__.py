"""Schedule spaces of CPU kernels: `choices` is the entry, `reduction_space` has the parameters and
constraints of kernels that reduce, `lane_reduction_space` those of sums along the lanes,
`parameter_values` their values, `block_footprint` the bytes that a block keeps in L2.
"""

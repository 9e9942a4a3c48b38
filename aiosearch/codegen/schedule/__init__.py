"""Schedule spaces of kernels (`space`), and plans that choose one schedule for each kernel of a
module (`plans`).
"""

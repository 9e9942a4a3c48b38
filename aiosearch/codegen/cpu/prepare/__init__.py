"""Changes of a kernel that its `Schedule` asks for, made before it is printed: `preparation` is the
entry, `precision` widens 16-bit floats, `serial_passes` orders stages along the serial index,
`transpose_kernels` transposes inputs beforehand.
"""

"""The enumeration of programs: kernel graphs, the block graphs of their kernels, and the searches
over both."""

"""From CUDA C++ text to the IR, by way of libclang."""

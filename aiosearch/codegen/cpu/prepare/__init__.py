"""Changes of a kernel that its schedule asks for, made before it is printed."""

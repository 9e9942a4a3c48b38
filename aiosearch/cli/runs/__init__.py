"""What long commands do: searches, optimizations and checks, watched and interrupted."""

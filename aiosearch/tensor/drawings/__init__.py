"""SVG drawings of programs: boxes and their layered layout."""

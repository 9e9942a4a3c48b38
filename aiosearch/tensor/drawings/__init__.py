"""SVG drawings of programs: boxes (`svg_boxes`) and their placement (`layered_layout`)."""

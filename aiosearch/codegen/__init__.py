"""From programs and µgraphs to the tile IR, and from there to code."""

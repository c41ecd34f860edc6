"""The panels, a file each: how many lines it may have, and draw(scene, width, height)."""

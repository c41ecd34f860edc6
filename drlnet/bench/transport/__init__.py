"""`drlnet bench transport`: what an operation costs over each transport."""

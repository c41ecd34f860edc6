"""`drlnet bench sampler`: what drawing and updating cost, over sizes, beside what others do."""

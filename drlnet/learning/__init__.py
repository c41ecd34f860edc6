"""Training: what a learner learns from. Roles drive it."""

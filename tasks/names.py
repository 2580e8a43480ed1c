"""The names of what is built in, for settings, which are read before torch is. Objectives are in metrics.py."""

BACKBONE_NAMES = ("gcn", "gin", "sage", "gat", "pna", "gine", "mlp")
LOSS_NAMES = ("bce", "cross_entropy", "mse", "l1", "huber")

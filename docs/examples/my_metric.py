"""A metric of your own: any class of TorchMetrics that says which way is better."""

import torch
import torchmetrics


class WorstError(torchmetrics.Metric):
    higher_is_better = False

    def __init__(self):
        super().__init__()
        self.add_state("worst", torch.tensor(0.0), dist_reduce_fx="max")

    def update(self, predictions, y):
        self.worst = torch.maximum(self.worst, (predictions - y).abs().max())

    def compute(self):
        return self.worst

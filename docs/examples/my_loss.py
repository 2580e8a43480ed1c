"""A loss of your own: any function of predictions and targets that gives one number."""

import torch


def log_cosh(predictions, y):
    return torch.log(torch.cosh((predictions - y).clamp(-20, 20))).mean()

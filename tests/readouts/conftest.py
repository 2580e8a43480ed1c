import torch

torch.set_num_threads(1)  # small matrices, and pytest already runs a process a core

"""A Lightning callback of your own: print the largest gradient of every epoch."""

import pytorch_lightning as pl


class LargestGradient(pl.Callback):
    def on_train_epoch_start(self, trainer, module):
        self.largest = 0.0

    def on_before_optimizer_step(self, trainer, module, optimizer):
        norms = [weight.grad.norm().item() for weight in module.parameters() if weight.grad is not None]
        self.largest = max(self.largest, *norms)

    def on_train_epoch_end(self, trainer, module):
        print(f"epoch {trainer.current_epoch}: largest gradient {self.largest:.3g}")

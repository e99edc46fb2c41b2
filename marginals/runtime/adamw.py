"""AdamW by torch's fused kernel.

`torch.optim` loads the compiler and its computer algebra when it first makes an optimiser, which
takes longer than many a fit. The kernel is the same.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


@final
class AdamW:
    """Loshchilov and Hutter's AdamW.

    Args:
        parameters: those that need a gradient are learned.
        rate: the learning rate.
        decay: the decoupled weight decay of each parameter.
        amsgrad: divide by the largest second moment so far (Reddi, Kale and Kumar, 2018).

    >>> x = nn.Parameter(torch.ones(1))
    >>> optimiser = AdamW([x], 0.1, [0.0])
    >>> (x**2).sum().backward()
    >>> optimiser.step()
    >>> x
    Parameter containing:
    tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        rate: float,
        decay: Sequence[float],
        amsgrad: bool = False,
    ) -> None:
        pairs = [(p, d) for p, d in zip(parameters, decay, strict=True) if p.requires_grad]
        self.parameters, self.decay = [p for p, _ in pairs], [d for _, d in pairs]
        self.mean = [torch.zeros_like(p) for p in self.parameters]
        self.square = [torch.zeros_like(p) for p in self.parameters]
        self.largest = [torch.zeros_like(p) for p in self.parameters] if amsgrad else []
        self.steps = [
            torch.zeros((), dtype=torch.float32, device=p.device) for p in self.parameters
        ]
        # A step recorded on a GPU reads the rate, and the gradient's scale, from its memory.
        device = pairs[0][0].device if pairs else None
        kind = torch.float32 if device is not None and device.type == "cuda" else torch.float64
        self.rate = torch.tensor(rate, dtype=kind, device=device)

    def set_rate(self, rate: float) -> None:
        """Change the learning rate."""
        self.rate.fill_(rate)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, scale: Tensor | None = None) -> None:
        """Take a step by the gradients, divided by `scale` if given."""
        groups: dict[tuple[torch.dtype, float], list[int]] = {}
        for i, (parameter, decay) in enumerate(zip(self.parameters, self.decay, strict=True)):
            if parameter.grad is not None:
                groups.setdefault((parameter.dtype, decay), []).append(i)
        for (_, decay), at in groups.items():
            steps = [self.steps[i] for i in at]
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                [self.parameters[i] for i in at],
                [grad for i in at if (grad := self.parameters[i].grad) is not None],
                [self.mean[i] for i in at],
                [self.square[i] for i in at],
                [self.largest[i] for i in at] if self.largest else [],
                steps,
                lr=self.rate,
                beta1=_BETAS[0],
                beta2=_BETAS[1],
                weight_decay=decay,
                eps=_EPSILON,
                amsgrad=bool(self.largest),
                maximize=False,
                grad_scale=scale,
            )

    def moments(self) -> dict[str, Tensor]:
        """Return what `load_moments` takes: the moments and the steps of each parameter."""
        parts = {"exp_avg": self.mean, "exp_avg_sq": self.square, "step": self.steps}
        parts |= {"max_exp_avg_sq": self.largest} if self.largest else {}
        return {f"{i}/{name}": t for name, part in parts.items() for i, t in enumerate(part)}

    @torch.no_grad()
    def load_moments(self, moments: dict[str, Tensor]) -> None:
        """Set the moments in place."""
        for name, own in self.moments().items():
            own.copy_(moments[name])

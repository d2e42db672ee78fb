"""Small training programs, and what one step of them computes."""

import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = dropout

    def forward(self, x):
        y = functional.gelu(self.up(x))
        return x + self.down(functional.dropout(y, self.dropout, self.dropout > 0))


class Overwriting(nn.Module):
    """Multiplies by a buffer that it overwrites, as in the series' first patch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = Block(width), Block(width)
        self.register_buffer("scale", torch.full((width,), 0.5))

    def forward(self, x):
        gate = self.scale.exp()
        with torch.no_grad():
            self.scale.mul_(3.0)
        return self.second(self.first(x) * gate) * self.scale


def blocks(count: int = 3, dropout: float = 0.0):
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(16, dropout) for _ in range(count)))
    return model, torch.rand(32, 16, requires_grad=True)


def overwriting():
    torch.manual_seed(0)
    return Overwriting(16), torch.rand(32, 16, requires_grad=True)


def train(model, function, x):
    """The loss, gradients and buffers of a step from the same state and seed."""
    start = {name: value.clone() for name, value in model.state_dict().items()}
    model.zero_grad()
    x.grad = None
    torch.manual_seed(1)
    loss = function(x).square().mean()
    loss.backward()
    found = [loss.detach(), x.grad, *(p.grad for p in model.parameters())]
    found = [value.clone() for value in (*found, *model.buffers())]
    model.load_state_dict(start)
    return found


def eager_parts(partitioner):
    """A backend that runs the parts of the graph as they are, without a compiler."""
    torch._dynamo.reset()
    return aot_autograd(
        fw_compiler=lambda gm, _: make_boxed_func(gm), partition_fn=partitioner
    )

"""Recurrent layers in one direction, forwards and backwards, with the gradient of every step's gates.

A recurrent layer's per-example gradients are sums over steps of products: of the gradient of a step's gates, with the
step's input and with the hidden state before it. Libraries return neither, only weight gradients summed over examples.

`StepByStep`  runs the steps itself. What does not depend on the previous step is computed for all steps at once.
`ByLibrary`   lets torch's own layer run, which is one kernel of cuDNN on a GPU. It gets the gates' inputs instead of
              the layer's, with the identity as input weights: then the gradient of its input is that of the gates.

Shapes: T steps, B examples, H hidden units, p hidden units after a projection (H without one), G = 4H gates of an LSTM,
3H of a GRU, H of a plain recurrent layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import _VF, Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the recurrent part of a layer, in one direction.

    Attributes:
        hidden: The weight that multiplies hidden states, [G, p].
        bias: Its bias, [G].
        projection: The weight that makes p of H hidden units, [p, H], for some LSTMs.
    """

    hidden: Tensor
    bias: Tensor | None = None
    projection: Tensor | None = None


@dataclass(frozen=True, slots=True)
class StepGradients:
    """The gradients that a backward pass through the steps brings out.

    Attributes:
        inputs: Those of the gates' inputs, [T, B, G].
        recurrent: Those of the products with hidden states, [T, B, G]: the same, except for a GRU.
        start: Those of the initial states: [B, p], and [B, H] for an LSTM.
        outputs: Those of the hidden states, through outputs and later steps, [T, B, p]; for projections.
    """

    inputs: Tensor
    recurrent: Tensor
    start: tuple[Tensor, ...]
    outputs: Tensor | None = None


class Steps(ABC):
    """One pass over a sequence.

    Attributes:
        hidden: The hidden states, from the initial one on, [T + 1, B, p].
        final: The states after each example's last step: [B, p], and [B, H] for an LSTM.
        unprojected: The hidden states before their projection, [T, B, H].
    """

    hidden: Tensor
    final: tuple[Tensor, ...]
    unprojected: Tensor | None = None

    @abstractmethod
    def backward(self, outputs: Tensor, final: tuple[Tensor, ...]) -> StepGradients:
        """Return gradients, from those of the outputs [T, B, p] and of the final states. It may be called again."""


def run_steps(mode: str, inputs: Tensor, weights: Weights, start: tuple[Tensor, ...], lengths: Tensor | None) -> Steps:
    """Run a layer in one direction: by the library on a GPU, which launches few kernels, and step by step on a CPU.

    Args:
        mode: LSTM, GRU, RNN_TANH or RNN_RELU.
        inputs: The gates' inputs W x + b, [T, B, G].
        weights: The weights of the recurrent part.
        start: The initial states: [B, p], and [B, H] for an LSTM.
        lengths: How many steps each example has, on the CPU; T, if None.
    """
    # With a projection, gradients need the hidden states before it, which the library does not return.
    kind = ByLibrary if inputs.is_cuda and weights.projection is None else STEP_BY_STEP[mode]
    return kind(mode, inputs, weights, start, lengths)


class StepByStep(Steps):
    """Runs the steps itself. Beyond an example's length its steps go on, and nothing depends on them."""

    def __init__(
        self, mode: str, inputs: Tensor, weights: Weights, start: tuple[Tensor, ...], lengths: Tensor | None
    ) -> None:
        self._mode, self._weights, self._lengths = mode, weights, lengths
        steps, size, _ = inputs.shape
        self.hidden = inputs.new_empty(steps + 1, size, start[0].shape[1])
        self.hidden[0] = start[0]
        self._forward(inputs, start)
        self.final = tuple(self._at_end(states) for states in self._states())

    @abstractmethod
    def _forward(self, inputs: Tensor, start: tuple[Tensor, ...]) -> None:
        """Fill in the states of all steps."""

    def _states(self) -> tuple[Tensor, ...]:
        return (self.hidden,)

    def _at_end(self, states: Tensor) -> Tensor:
        """Return each example's state after its last step."""
        if self._lengths is None:
            return states[-1].clone()
        return states[self._lengths.to(states.device), torch.arange(states.shape[1], device=states.device)]

    def _of_states(self, outputs: Tensor, final: Tensor) -> Tensor:
        """Return gradients of states at all steps [T, B, p]: those of outputs, plus those of the final states."""
        outputs = outputs.clone(memory_format=torch.contiguous_format)
        if self._lengths is None:
            outputs[-1] += final
        else:
            outputs[self._lengths.to(final.device) - 1, torch.arange(len(final), device=final.device)] += final
        return outputs


class _Lstm(StepByStep):
    """c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), with the gates i, f, g, o in torch's order."""

    def _forward(self, inputs: Tensor, start: tuple[Tensor, ...]) -> None:
        weights, width = self._weights, start[1].shape[1]
        steps, size, _ = inputs.shape
        self._gates = _sum(inputs, weights.bias)
        self._cells = inputs.new_empty(steps + 1, size, width)
        self._cells[0] = start[1]
        projection = weights.projection
        outputs = self.hidden[1:] if projection is None else inputs.new_empty(steps, size, width)
        self.unprojected = None if projection is None else outputs
        for step in range(steps):
            gates, cell = self._gates[step].addmm_(self.hidden[step], weights.hidden.T), self._cells[step + 1]
            gates[:, : 2 * width].sigmoid_()
            gates[:, 2 * width : 3 * width].tanh_()
            gates[:, 3 * width :].sigmoid_()
            i, f, g, o = gates.chunk(4, dim=1)
            torch.mul(f, self._cells[step], out=cell).addcmul_(i, g)
            torch.tanh(cell, out=outputs[step]).mul_(o)
            if projection is not None:
                torch.mm(outputs[step], projection.T, out=self.hidden[step + 1])

    def _states(self) -> tuple[Tensor, ...]:
        return self.hidden, self._cells

    def backward(self, outputs: Tensor, final: tuple[Tensor, ...]) -> StepGradients:
        weights = self._weights
        i, f, g, o = self._gates.chunk(4, dim=2)
        tanh_cells = self._cells[1:].tanh()
        # The derivatives of c by i, f and g, of h by o, and of h by c.
        by_gate = torch.stack(
            [g * i * (1 - i), self._cells[:-1] * f * (1 - f), i * (1 - g * g), tanh_cells * o * (1 - o)], dim=2
        )
        by_cell = o * (1 - tanh_cells * tanh_cells)
        gradients = torch.empty_like(by_gate)
        of_hidden = self._of_states(outputs, final[0])
        of_cells = None if self._lengths is None else self._of_states(torch.zeros_like(by_cell), final[1])
        of_cell = final[1] if of_cells is None else torch.zeros_like(final[1])
        for step in reversed(range(len(by_gate))):
            of_output = of_hidden[step] if weights.projection is None else of_hidden[step] @ weights.projection
            of_cell = of_cell if of_cells is None else of_cell + of_cells[step]
            of_cell = torch.addcmul(of_cell, of_output, by_cell[step])
            torch.mul(by_gate[step, :, :3], of_cell.unsqueeze(1), out=gradients[step, :, :3])
            torch.mul(by_gate[step, :, 3], of_output, out=gradients[step, :, 3])
            of_cell = of_cell * f[step]
            if step:
                of_hidden[step - 1].addmm_(gradients[step].flatten(1), weights.hidden)
        of_gates = gradients.flatten(2)
        start = (of_gates[0] @ weights.hidden, of_cell)
        return StepGradients(of_gates, of_gates, start, None if weights.projection is None else of_hidden)


class _Gru(StepByStep):
    """h = (1 - z) n + z h with n = tanh(x_n + r (W_n h + b_n)), and sigmoids r and z of sums; the order is r, z, n."""

    def _forward(self, inputs: Tensor, start: tuple[Tensor, ...]) -> None:
        weights, width = self._weights, start[0].shape[1]
        self._gates = inputs.clone(memory_format=torch.contiguous_format)
        self._products = torch.empty_like(self._gates)
        bias = inputs.new_zeros(3 * width) if weights.bias is None else weights.bias
        for step in range(len(inputs)):
            hidden, gates = self.hidden[step], self._gates[step]
            product = torch.addmm(bias, hidden, weights.hidden.T, out=self._products[step])
            gates[:, : 2 * width].add_(product[:, : 2 * width]).sigmoid_()
            r, z, n = gates.chunk(3, dim=1)
            n.addcmul_(r, product[:, 2 * width :]).tanh_()
            torch.sub(hidden, n, out=self.hidden[step + 1]).mul_(z).add_(n)

    def backward(self, outputs: Tensor, final: tuple[Tensor, ...]) -> StepGradients:
        r, z, n = self._gates.chunk(3, dim=2)
        of_hidden = self._of_states(outputs, final[0])
        # The derivatives of h by the arguments of r, z and n, and by W_n h + b_n, which r multiplies.
        by_n = (1 - z) * (1 - n * n)
        by_r = by_n * self._products.chunk(3, dim=2)[2] * r * (1 - r)
        by_gate = torch.stack([by_r, (self.hidden[:-1] - n) * z * (1 - z), by_n * r, by_n], dim=2)
        gradients = torch.empty_like(by_gate)
        weight = self._weights.hidden
        for step in reversed(range(len(by_gate))):
            torch.mul(by_gate[step], of_hidden[step].unsqueeze(1), out=gradients[step])
            if step:
                of_hidden[step - 1].addcmul_(of_hidden[step], z[step]).addmm_(gradients[step, :, :3].flatten(1), weight)
        recurrent = gradients[:, :, :3].flatten(2)
        start = torch.addmm(of_hidden[0] * z[0], recurrent[0], weight)
        return StepGradients(gradients[:, :, [0, 1, 3]].flatten(2), recurrent, (start,))


class _Rnn(StepByStep):
    """h = tanh(x + W h + b), or relu."""

    def _forward(self, inputs: Tensor, start: tuple[Tensor, ...]) -> None:
        self.hidden[1:] = inputs if self._weights.bias is None else inputs + self._weights.bias
        for step in range(len(inputs)):
            state = self.hidden[step + 1].addmm_(self.hidden[step], self._weights.hidden.T)
            state.tanh_() if self._mode == "RNN_TANH" else state.relu_()

    def backward(self, outputs: Tensor, final: tuple[Tensor, ...]) -> StepGradients:
        states, weight = self.hidden[1:], self._weights.hidden
        gradients = self._of_states(outputs, final[0])
        slopes = 1 - states * states if self._mode == "RNN_TANH" else (states > 0).to(states)
        for step in reversed(range(len(slopes))):
            gradients[step].mul_(slopes[step])
            if step:
                gradients[step - 1].addmm_(gradients[step], weight)
        return StepGradients(gradients, gradients, (gradients[0] @ weight,))


STEP_BY_STEP: dict[str, type[StepByStep]] = {"LSTM": _Lstm, "GRU": _Gru, "RNN_TANH": _Rnn, "RNN_RELU": _Rnn}
_LIBRARY: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "LSTM": _VF.lstm,
    "GRU": _VF.gru,
    "RNN_TANH": _VF.rnn_tanh,
    "RNN_RELU": _VF.rnn_relu,
}


class ByLibrary(Steps):
    """Runs torch's own layer, whose input weight is the identity."""

    def __init__(
        self, mode: str, inputs: Tensor, weights: Weights, start: tuple[Tensor, ...], lengths: Tensor | None
    ) -> None:
        self._mode, self._weights, self._lengths = mode, weights, lengths
        with torch.enable_grad():
            # A graph of its own, from which `backward` asks for gradients.
            self._leaves = [value.detach().requires_grad_() for value in (inputs, *start)]
            self._outputs, *finals = self._run(*self._leaves)
        self._finals = tuple(finals)
        self.final = tuple(value.detach().clone() for value in finals)
        self.hidden = torch.cat([start[0].unsqueeze(0), self._outputs.detach()])

    def _run(self, inputs: Tensor, *start: Tensor) -> tuple[Tensor, ...]:
        width = inputs.shape[2]
        bias = self._weights.bias
        flat = [torch.eye(width, dtype=inputs.dtype, device=inputs.device), self._weights.hidden.detach()]
        if bias is not None:
            flat += [torch.zeros_like(bias), bias.detach()]
        if inputs.is_cuda:
            flat = _in_one_buffer(self._mode, flat, start[0].shape[1])
        states = [state.unsqueeze(0) for state in start]
        # One layer, without dropout, one direction. Backward passes of cuDNN need training mode.
        options = (flat, bias is not None, 1, 0.0, True, False)
        if self._lengths is None:
            output, *finals = _LIBRARY[self._mode](inputs, states if len(states) == 2 else states[0], *options, False)
            return output, *(final[0] for final in finals)
        packed = pack_padded_sequence(inputs, self._lengths, enforce_sorted=False)
        assert packed.sorted_indices is not None
        assert packed.unsorted_indices is not None
        states = [state.index_select(1, packed.sorted_indices) for state in states]
        data, *finals = _LIBRARY[self._mode](
            packed.data, packed.batch_sizes, states if len(states) == 2 else states[0], *options
        )
        output, _ = pad_packed_sequence(packed._replace(data=data), total_length=len(inputs))
        return output, *(final[0].index_select(0, packed.unsorted_indices) for final in finals)

    def backward(self, outputs: Tensor, final: tuple[Tensor, ...]) -> StepGradients:
        with torch.enable_grad():
            inputs, *start = torch.autograd.grad(
                (self._outputs, *self._finals), self._leaves, (outputs, *final), retain_graph=True
            )
        return StepGradients(inputs, self._recurrent(inputs), tuple(start))

    def _recurrent(self, of_inputs: Tensor) -> Tensor:
        """Return the gradients of the products with hidden states: in a GRU, r multiplies one of them."""
        if self._mode != "GRU":
            return of_inputs
        width = self.hidden.shape[2]
        # All hidden states are known, so r is one product.
        r = self.hidden[:-1] @ self._weights.hidden[:width].T + self._leaves[0].detach()[:, :, :width]
        r = (r if self._weights.bias is None else r + self._weights.bias[:width]).sigmoid_()
        return torch.cat([of_inputs[:, :, : 2 * width], of_inputs[:, :, 2 * width :] * r], dim=2)


def _in_one_buffer(mode: str, flat: list[Tensor], width: int) -> list[Tensor]:
    """Return the weights as views of one buffer, as cuDNN wants them; it would warn and copy them otherwise."""
    if not torch.backends.cudnn.is_acceptable(flat[0]):  # type: ignore[no-untyped-call]
        return flat
    numbers = {"RNN_RELU": 0, "RNN_TANH": 1, "LSTM": 2, "GRU": 3}
    # Copies: the tensors are moved in place, which would count as a change of the parameters that they are.
    flat = [value.clone() for value in flat]
    with torch.no_grad():
        torch._cudnn_rnn_flatten_weight(flat, len(flat), len(flat[0]), numbers[mode], width, 0, 1, False, False)
    return flat


def _sum(inputs: Tensor, bias: Tensor | None) -> Tensor:
    """Return a new, contiguous tensor."""
    total = inputs.clone(memory_format=torch.contiguous_format)
    return total if bias is None else total.add_(bias)

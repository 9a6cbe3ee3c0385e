"""What a training run agrees on before it sees data: sampling, clipping, noise, units, phases, and the event.

`plan` ties them together; `loader` and `transfer` say which data and which parameters take part.
"""

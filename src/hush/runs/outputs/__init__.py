"""What a model puts out, by what it predicts: one of several classes, a number, or several labels.

`losses` has the loss of each kind, and what the outputs mean; `regression` and `labels` measure errors of numbers and
accuracies of labels on held-out units; `forecast` says before a run what public numbers allow; `onnx_file` writes a
finished model for other programs.
"""

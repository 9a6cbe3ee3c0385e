"""Runs: from a file of personal data to a private model, its guarantee and a report, in one folder.

- `Settings`: what to do; `train` does it, in a new folder; `resume` goes on after Ctrl-C or a crash.
- `tune` searches for settings, and pays for the search.
- `audit` attacks a finished run, and adds what it finds to its report.
- `load` builds the model of a finished run again.

A run's folder holds model.safetensors and model.json (how to build it again), guarantee.json, metrics.jsonl,
figures.json, report.html, run.json; and, in files named not-private, what must not be published. While it is not
finished, a sub-folder of its own holds its secrets: who can read the keys can take the noise off.
"""

from hush.runs.auditing import audit as audit
from hush.runs.job import resume as resume
from hush.runs.job import train as train
from hush.runs.outcome import Outcome as Outcome
from hush.runs.outcome import Trained as Trained
from hush.runs.outcome import load as load
from hush.runs.progress import Progress as Progress
from hush.runs.settings import Settings as Settings
from hush.runs.steps import Interrupted as Interrupted
from hush.runs.tuning import tune as tune

__all__ = ["Interrupted", "Outcome", "Progress", "Settings", "Trained", "audit", "load", "resume", "train", "tune"]

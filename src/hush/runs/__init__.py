"""Runs: from a file of personal data to a private model, its guarantee and a report, in one folder.

- `Settings` describes a run. `train` carries it out in a new folder; `resume` continues it after Ctrl-C or a crash.
- `tune` searches for hyper-parameters, and accounts for the search.
- `audit` attacks a finished run, and adds the result to its report.
- `load` rebuilds the model of a finished run, a `Trained`.
- `Progress` is what you implement to follow a run; `Outcome` is what a run returns; `Interrupted` is what it raises.

How a run goes, and the module of each stage:

1. ``settings``: the requested settings. Each field is an option, declared once (``options``).
2. ``dataset``: all that is missing is asked at once; then the data are read, what is not declared is learned privately,
   and some units are held out.
3. ``draft``: everything that follows from settings and public numbers: defaults, and the `hush.training.TrainingPlan`.
   ``run_plan``: a `RunPlan` fixes everything before the first step, and states what it costs; `hush plan` prints it.
   The guarantee is computed from the very plan object that draws the noise.
4. ``networks`` builds the model; ``outputs`` says what it puts out: classes, a number or labels. ``steps`` trains it,
   stores its state and measures it on the way (``figures``).
5. ``outcome`` writes model, guarantee and report; ``job`` ties the stages together; ``folder`` holds the files.

A finished folder holds model.safetensors and model.json (how to rebuild it), guarantee.json, metrics.jsonl,
figures.json, report.html and run.json. Files named not-private must not be published. Until a run is finished, a
sub-folder holds its secrets: anyone who has the keys can subtract the noise.

The names load on first use, so that the command line can read `Settings` where torch is not installed.
"""

from typing import TYPE_CHECKING

from hush.lazy_loading import lazy_names

if TYPE_CHECKING:
    from hush.runs.auditing import audit as audit
    from hush.runs.dataset import questions_about as questions_about
    from hush.runs.draft import Undeclared as Undeclared
    from hush.runs.draft import draft_plan as draft_plan
    from hush.runs.folder import private_files as private_files
    from hush.runs.job import charged_to as charged_to
    from hush.runs.job import resume as resume
    from hush.runs.job import train as train
    from hush.runs.options import Option as Option
    from hush.runs.options import OptionGroup as OptionGroup
    from hush.runs.options import option as option
    from hush.runs.options import options_of as options_of
    from hush.runs.outcome import Outcome as Outcome
    from hush.runs.outcome import Trained as Trained
    from hush.runs.outcome import load as load
    from hush.runs.progress import Progress as Progress
    from hush.runs.run_plan import RunPlan as RunPlan
    from hush.runs.settings import Settings as Settings
    from hush.runs.steps import Interrupted as Interrupted
    from hush.runs.tuning import tune as tune
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Interrupted": "hush.runs.steps",
            "Outcome": "hush.runs.outcome",
            "Progress": "hush.runs.progress",
            "Settings": "hush.runs.settings",
            "Trained": "hush.runs.outcome",
            "audit": "hush.runs.auditing",
            "load": "hush.runs.outcome",
            "resume": "hush.runs.job",
            "train": "hush.runs.job",
            "tune": "hush.runs.tuning",
            # Shared inside hush, not public.
            "Option": "hush.runs.options",
            "OptionGroup": "hush.runs.options",
            "RunPlan": "hush.runs.run_plan",
            "Undeclared": "hush.runs.draft",
            "charged_to": "hush.runs.job",
            "draft_plan": "hush.runs.draft",
            "option": "hush.runs.options",
            "options_of": "hush.runs.options",
            "private_files": "hush.runs.folder",
            "questions_about": "hush.runs.dataset",
        },
    )

__all__ = ["Interrupted", "Outcome", "Progress", "Settings", "Trained", "audit", "load", "resume", "train", "tune"]

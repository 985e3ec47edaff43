"""Tasks: declarations of what to measure a space on, readers of the files of each release, and tasks from your own files."""

from theodolite.spaces.readers.errors import DataError
from theodolite.tasks.declarations import TASKS, find_task
from theodolite.tasks.examples import Examples, check_labels, drop_unseen_labels, labels_of
from theodolite.tasks.loading import load_task
from theodolite.tasks.own import own_task
from theodolite.tasks.scores import SCORES, score
from theodolite.tasks.task import TEXT_UNIT, UNITS, Hub, Kind, Layout, Task

__all__ = [
    "SCORES",
    "TASKS",
    "TEXT_UNIT",
    "UNITS",
    "DataError",
    "Examples",
    "Hub",
    "Kind",
    "Layout",
    "Task",
    "check_labels",
    "drop_unseen_labels",
    "find_task",
    "labels_of",
    "load_task",
    "own_task",
    "score",
]

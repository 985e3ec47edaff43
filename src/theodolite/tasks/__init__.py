"""Tasks: declarations of what to measure a space on, readers of each release's own files, and files of one's own."""

from theodolite.tasks.errors import DataError as DataError
from theodolite.tasks.examples import Examples as Examples
from theodolite.tasks.labels import check_labels as check_labels
from theodolite.tasks.labels import known_labels as known_labels
from theodolite.tasks.labels import labels_of as labels_of
from theodolite.tasks.load import load_task as load_task
from theodolite.tasks.own import own_task as own_task
from theodolite.tasks.scores import SCORES as SCORES
from theodolite.tasks.scores import score as score
from theodolite.tasks.task import TASKS as TASKS
from theodolite.tasks.task import Hub as Hub
from theodolite.tasks.task import Kind as Kind
from theodolite.tasks.task import Layout as Layout
from theodolite.tasks.task import Task as Task

__all__ = [
    "SCORES",
    "TASKS",
    "DataError",
    "Examples",
    "Hub",
    "Kind",
    "Layout",
    "Task",
    "check_labels",
    "known_labels",
    "labels_of",
    "load_task",
    "own_task",
    "score",
]

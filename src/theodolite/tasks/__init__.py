"""Tasks: declarations of what to measure a space on, readers of the files of each release, and tasks from your own files."""

from theodolite.spaces.readers.data_files import DataError
from theodolite.tasks.declarations import TASKS, find_task
from theodolite.tasks.examples import Examples
from theodolite.tasks.loading import canonical_sentences, load_task
from theodolite.tasks.own import own_task
from theodolite.tasks.retrieval import Collection, Judgements, read_beir
from theodolite.tasks.scores import SCORES, score
from theodolite.tasks.task import Task

# fmt: off
__all__ = [
    "SCORES", "TASKS", "Collection", "DataError", "Examples", "Judgements", "Task", "canonical_sentences", "find_task",
    "load_task", "own_task", "read_beir", "score",
]
# fmt: on

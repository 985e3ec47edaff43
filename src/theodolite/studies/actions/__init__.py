"""How each kind of step is done."""

from theodolite.studies.actions.cross import cross_task
from theodolite.studies.actions.layers import measure_layers
from theodolite.studies.actions.look import draw_picture, spectrum
from theodolite.studies.actions.probe import probe_labels
from theodolite.studies.actions.repair import repair_scores, sweep_directions
from theodolite.studies.actions.structure import cluster_structure, frequency_bias
from theodolite.studies.actions.train import fine_tune
from theodolite.studies.actions.vectors import extract_vectors
from theodolite.studies.actions.while_training import movement
from theodolite.studies.step import Action

ACTIONS: dict[str, Action] = {
    "tune": Action(fine_tune, resumable=True),
    "vectors": Action(extract_vectors, resumable=True),
    "layers": Action(measure_layers, version=2),
    "repairs": Action(repair_scores),
    "sweep": Action(sweep_directions),
    "clusters": Action(cluster_structure),
    "frequency": Action(frequency_bias),
    "picture": Action(draw_picture),
    "spectrum": Action(spectrum),
    "probe": Action(probe_labels),
    "movement": Action(movement),
    "cross": Action(cross_task),
}
"""All kinds of steps by name."""

"""Studies: a paper's experiment as data, run on one's own encoders, checked against what the paper prints and claims.

>>> from theodolite.studies import study, study_names
>>> study_names()
['do-no-harm', 'il23', 'rp21', 'zs22']
>>> [claim.id for claim in study("il23").claims]
['IL23-a', 'IL23-b', 'IL23-c', 'IL23-d']
"""

from theodolite.studies.running import Study, study
from theodolite.studies.spec import study_names

__all__ = ["Study", "study", "study_names"]

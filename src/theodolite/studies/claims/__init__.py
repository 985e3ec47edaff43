"""Claims of papers: what a rule sees, the rules by theme, and what becomes of claims and printed numbers.

Importing this package registers every rule.
"""

from theodolite.studies.claims import audits, isotropy, labels, scores
from theodolite.studies.claims.evidence import Evidence
from theodolite.studies.claims.rules import RULES

__all__ = ["RULES", "Evidence", "audits", "isotropy", "labels", "scores"]

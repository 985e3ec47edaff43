"""Claims of papers: what a rule sees, the rules, their premises, and what becomes of claims and printed numbers.

Importing this package registers every rule.
"""

from theodolite.studies.claims import label_rules, number_rules
from theodolite.studies.claims.rules import RULES

__all__ = ["RULES", "label_rules", "number_rules"]

"""Claims of papers: what a rule sees, the rules, and what becomes of claims and printed numbers.

Importing this package registers every rule.
"""

from theodolite.studies.claims import audits, label_rules, number_rules
from theodolite.studies.claims.rules import RULES

__all__ = ["RULES", "audits", "label_rules", "number_rules"]

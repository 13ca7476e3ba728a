"""Compares manifests, segments and tables of a lake: what is new each time, and on demand everything."""

from unspool.collect.lake.verify.devices import LakeProblem
from unspool.collect.lake.verify.state import drop_verified
from unspool.collect.lake.verify.verification import LakeVerification, verify_lake

__all__ = ["LakeProblem", "LakeVerification", "drop_verified", "verify_lake"]

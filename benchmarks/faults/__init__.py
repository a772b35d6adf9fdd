"""The parts of ``benchmarks.soak_faults``: commands disturbed at every change of a workspace, and what follows."""

"""The parts of ``benchmarks.soaks.kills``: commands disturbed at every change of a workspace, and what follows."""

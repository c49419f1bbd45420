"""Where workers run: processes of this machine, a Ray cluster, or the ranks of a torchrun job."""

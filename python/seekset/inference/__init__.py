"""Encoders run over every sequence, on all devices of a machine or of a cluster."""

"""Which errors a process does not get over."""

import pytest

from seekset.inference.messages import MachineError, is_lasting

BROKEN = [
    "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported",
    "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`",
    "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    "HIP error: an illegal memory access was encountered",
    "HIPBLAS_STATUS_INTERNAL_ERROR when calling `hipblasSgemm`",
    "MIOpen Error: unknown",
    "INTERNAL: Failed to synchronize: CUDA_ERROR_ILLEGAL_ADDRESS",
    "cudaErrorIllegalAddress: an illegal memory access was encountered",
    "CUDA failure 700: an illegal memory access was encountered",
]
OTHERS = ["index out of range", "no such layer", "a relationship error", "expected all tensors to be on cuda:0", ""]


def raised(error, *, cause=None, during=None):
    """An error as it is when it was raised from another, or while that was dealt with."""
    error.__cause__, error.__context__ = cause, during
    # As without a cause that was named.
    error.__suppress_context__ = cause is not None
    return error


def hidden(error):
    """As by ``raise error from None``."""
    error.__suppress_context__ = True
    return error


@pytest.mark.parametrize("said", BROKEN)
def test_a_broken_device_is_known_by_what_is_said_of_it(said):
    assert is_lasting(RuntimeError(said))
    assert is_lasting(ValueError(said)), "whatever passes it on"


@pytest.mark.parametrize("said", BROKEN[:1])
def test_and_by_what_an_error_was_raised_for(said):
    error = RuntimeError(said)
    assert is_lasting(raised(ValueError("no vectors"), cause=error))
    assert is_lasting(raised(MachineError("no vectors"), cause=raised(KeyError("k"), cause=error)))
    assert is_lasting(raised(ValueError("no vectors"), during=error))
    assert not is_lasting(hidden(raised(ValueError("no vectors"), during=error)))


@pytest.mark.parametrize("said", OTHERS)
def test_other_errors_pass(said):
    assert not is_lasting(RuntimeError(said))
    assert not is_lasting(raised(ValueError(said), cause=RuntimeError(said)))


def test_an_error_that_was_raised_for_itself_is_looked_at_once():
    error = ValueError("no vectors")
    error.__cause__ = error
    assert not is_lasting(error)

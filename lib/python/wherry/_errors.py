"""The exceptions of failed calls."""

from __future__ import annotations


class Error(RuntimeError):
    """A call of the library failed.

    Its text is "CALL: CUDA_ERROR_NAME (description)", and advice what to do, where that is known.
    """

    __module__ = "wherry"

    def __init__(self, call: str, code: int, name: str, description: str, advice: str = "") -> None:
        # All attributes are arguments of the exception, so that it can be pickled.
        super().__init__(call, code, name, description, advice)
        #: The C function that failed.
        self.call = call
        #: Its CUresult.
        self.code = code
        #: The name of the code, for example "CUDA_ERROR_INVALID_VALUE".
        self.name = name
        #: The meaning of the code, for example "invalid argument".
        self.description = description
        #: What to do; may be empty.
        self.advice = advice

    def __str__(self) -> str:
        text = f"{self.call}: {self.name} ({self.description})"
        return f"{text}: {self.advice}" if self.advice else text


class OutOfMemoryError(Error, MemoryError):
    """CUDA_ERROR_OUT_OF_MEMORY, which is also a MemoryError."""

    __module__ = "wherry"

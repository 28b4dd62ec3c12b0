"""The process of the embedded model: llama.cpp's server, until the pipe to its stdin closes.

Started by `embedded` as a script: FILE NAME WINDOW SLOTS. The first line that it reads is the key
that requests must carry; the only line that it writes is the address where it listens, or the
reason why it can't.
"""

from __future__ import annotations

import os
import sys

try:
    from xllamacpp import CommonParams, Server
except ImportError as error:  # a system library is missing, or the package is for another system
    print(error, flush=True)  # noqa: T201 - the parent waits for a line
    sys.exit(1)

LONGEST_ANSWER = 512


def _params(file: str, name: str, window: int, slots: int) -> CommonParams:
    params = CommonParams()
    params.model.path = file
    params.model_alias = {name}
    params.n_ctx = window * slots
    params.n_parallel = slots
    params.cache_ram_mib = 0  # prompts are cached in their slots; the default takes up to 8 GB more
    # Measured on two cores: one thread writes 150 tokens a second and two write 55, but two read a
    # prompt twice as fast as one. On a busy machine the order is the same.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = min(2, os.cpu_count() or 1)
    # At llama.cpp's own 0.8 so small a model rambles, and at 0.2 alone it repeats itself.
    params.sampling.temp = 0.2
    params.sampling.penalty_repeat = 1.1
    params.n_predict = LONGEST_ANSWER
    params.verbosity = -1
    params.ui = False
    params.endpoint_slots = False  # it would show other callers' requests
    return params


def main() -> None:
    file, name, window, slots = sys.argv[1:]
    params = _params(file, name, int(window), int(slots))
    params.api_keys = [sys.stdin.readline().strip()]
    server = Server(params)  # serves as long as it is referenced
    print(server.listening_address, flush=True)  # noqa: T201 - the parent waits for this line
    sys.stdin.read()  # ends when the parent closes the pipe, or dies
    os._exit(0)  # an orderly shutdown of the server sometimes hangs, and there is no data to save


if __name__ == "__main__":
    main()

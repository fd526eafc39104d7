//! Memory that Python's objects lend: the buffer protocol.

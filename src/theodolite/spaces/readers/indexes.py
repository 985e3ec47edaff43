"""FAISS indexes, `.faiss` and `.index`: the vectors that an index holds, reconstructed in the order of their ids."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.vectors import BLOCK_BYTES, Indices, Source
from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, file_source

_RECONSTRUCTIBLE = "flat, IVF and HNSW indexes, scalar and product quantisers, and these behind a transform or an id map"
# Bytes that FAISS may allocate at a time for an index that is smaller, beyond which no damage is done.
_SMALL = 2**24
# The limits of FAISS are those of the process.
_LIMITS = Lock()


def read_faiss(file: File) -> Source:
    """The vectors of a FAISS index, in the order of their ids, which is that of adding them unless ids were given.

    A flat index gives the vectors themselves, a quantised one what it stores in their place, which a note says.
    """
    faiss = _import_faiss(file)
    if file.size == 0:
        raise EmptyFileError("the file is empty; there must be at least one vector", file)
    outer = _open_index(faiss, file)
    if outer is None:
        raise EmptyFileError("the file holds no index; there must be at least one vector", file)
    n, d = int(outer.ntotal), int(outer.d)
    if n == 0 or d == 0:
        raise EmptyFileError(f"the index is empty (shape {(n, d)}); there must be at least one vector", file)
    if n > file.size:  # before anything is made for each of them
        raise DataError(f"the index claims {n:,} vectors but has only {file.size:,} bytes; write it again", file)
    try:
        index, ids = _innermost(faiss, outer)
        vectors = index.reconstruct_batch(ids[:1])
    except (RuntimeError, AssertionError) as error:
        problem = f"{type(outer).__name__} cannot reconstruct its vectors ({_first_line(error)})"
        raise DataError(f"{problem}; {_RECONSTRUCTIBLE} can", file) from error

    def take(rows: Indices, _owner: Any = outer) -> NDArray[Any]:  # the outer index owns the inner one, which would be freed
        try:
            return np.asarray(index.reconstruct_batch(ids[rows]))
        except RuntimeError as error:
            raise DataError(f"the index is damaged ({_first_line(error)}); write it again", file) from error

    def chunks() -> Iterator[NDArray[Any]]:
        step = max(1, BLOCK_BYTES // (4 * d))
        return (take(np.arange(start, min(start + step, n))) for start in range(0, n, step))

    source = file_source(file, chunks, n=n, d=d, dtype=vectors.dtype, take=take)
    if losses := _losses(faiss, outer):
        source.notes = (
            f"the index stores approximations ({', '.join(losses)}), so the numbers are for these, not for the original vectors",
        )
    return source


def _import_faiss(file: File) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its generated wrapper uses what newer versions of Python warn of
            import faiss
    except ImportError:
        raise ImportError(f'{file} is a FAISS index, which needs another package: pip install "theodolite[faiss]"') from None
    return faiss


def _open_index(faiss: Any, file: File) -> Any:
    try:
        with _LIMITS, _limited(faiss, max(file.size, _SMALL)):
            if file.local is not None:
                # Tables that only a search needs may be larger than the index.
                return faiss.read_index(str(file.local), faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
            with file.open() as stream:
                return faiss.deserialize_index(np.frombuffer(stream.read(), np.uint8), faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
    except (RuntimeError, MemoryError) as error:
        raise DataError(
            f"this is not a complete FAISS index ({_first_line(error)}); write it with faiss.write_index", file
        ) from error


@contextmanager
def _limited(faiss: Any, size: int) -> Iterator[None]:
    """Let FAISS allocate no array that is larger than the file: a damaged one may state any length."""
    limits = {"vector_byte": size, "loop": size}
    before = {name: getattr(faiss, f"get_deserialization_{name}_limit")() for name in limits}
    try:
        for name, limit in limits.items():
            getattr(faiss, f"set_deserialization_{name}_limit")(limit)
        yield
    finally:
        for name, limit in before.items():
            getattr(faiss, f"set_deserialization_{name}_limit")(limit)


def _losses(faiss: Any, index: Any) -> list[str]:
    """What keeps an index from giving back the vectors that were added: its transforms and codes."""
    index = faiss.downcast_index(index)
    if isinstance(index, (faiss.IndexIDMap, faiss.IndexIDMap2)):
        return _losses(faiss, index.index)
    if isinstance(index, faiss.IndexPreTransform):
        transforms = [faiss.downcast_VectorTransform(index.chain.at(i)) for i in range(index.chain.size())]
        lost = [
            f"{type(entry).__name__} to {entry.d_out} of {entry.d_in} dimensions"
            if entry.d_out < entry.d_in
            else "vectors of length 1"
            for entry in transforms
            if entry.d_out < entry.d_in or isinstance(entry, faiss.NormalizationTransform)
        ]
        return lost + _losses(faiss, index.index)
    if isinstance(index, faiss.IndexRefine):
        return _losses(faiss, index.refine_index)
    if isinstance(index, (faiss.IndexHNSW, faiss.IndexNSG)):
        return _losses(faiss, index.storage)
    if isinstance(index, (faiss.IndexFlat, faiss.IndexIVFFlat)):
        return []
    return [f"{type(index).__name__}, {8 * index.sa_code_size()} bits for {index.d} numbers"]


def _innermost(faiss: Any, index: Any) -> tuple[Any, NDArray[np.int64]]:
    """The index that holds the vectors, and what to ask it for, in the order of the ids that the outer index has for them."""
    if index is None:
        raise RuntimeError("it should contain another index but does not")
    if isinstance(index, (faiss.IndexIDMap, faiss.IndexIDMap2)):
        inner, ids = _innermost(faiss, faiss.downcast_index(index.index))
        outer = faiss.vector_to_array(index.id_map)
        if len(outer) != len(ids):
            raise RuntimeError(f"it has {len(outer)} ids for {len(ids)} vectors")
        return inner, ids[np.argsort(outer, kind="stable")]
    if isinstance(index, faiss.IndexRefine):  # which knows the vectors better than the index that it refines
        return _innermost(faiss, faiss.downcast_index(index.refine_index))
    ivf = faiss.try_extract_index_ivf(index)
    if ivf is None:
        return index, np.arange(index.ntotal, dtype=np.int64)
    if isinstance(faiss.downcast_index(ivf), faiss.IndexIVFFastScan):  # FAISS crashes if such a list is taken apart
        raise RuntimeError("FastScan packs the codes of its lists")
    lists = ivf.invlists
    of_lists = [faiss.rev_swig_ptr(lists.get_ids(i), lists.list_size(i)).copy() for i in range(lists.nlist) if lists.list_size(i)]
    ids = np.sort(np.concatenate(of_lists)).astype(np.int64) if of_lists else np.zeros(0, np.int64)
    if len(ids) != index.ntotal or (np.diff(ids) == 0).any():
        raise RuntimeError("two of its vectors have the same id")
    # Without a map from ids to lists nothing can be reconstructed; an array serves only ids that are counted from 0.
    is_counted = bool((ids == np.arange(len(ids))).all())
    ivf.set_direct_map_type(faiss.DirectMap.Array if is_counted else faiss.DirectMap.Hashtable)
    return index, ids


def _first_line(error: BaseException) -> str:
    """What FAISS says, without the place in its sources."""
    if "_limit()" in str(error):
        return "it declares an array that is larger than the file"
    return str(error).strip().partition("\n")[0].rpartition(": ")[2][:160] or type(error).__name__

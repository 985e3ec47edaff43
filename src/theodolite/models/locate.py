"""Where an encoder's files lie: a folder, an entry of the hub, or the transformer part of a sentence-transformers model."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


class EncoderError(ValueError):
    """An encoder that cannot be had or cannot do what is asked; the message says what to do."""


@dataclass(frozen=True)
class Location:
    """What `from_pretrained` is given. `max_length` is the length that a sentence-transformers model was made for."""

    place: str
    subfolder: str = ""
    revision: str | None = None
    max_length: int | None = None
    is_folder: bool = False

    @property
    def name(self) -> str:
        """The hub id, or the folder's own name."""
        return Path(self.place).resolve().name if self.is_folder else self.place


def find(model: str | os.PathLike[str], *, revision: str | None) -> Location:
    """The place of an encoder's files; a folder is looked at first, everything else is an id of the hub."""
    text = os.fspath(model)
    folder = Path(text).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise EncoderError(f"revision={revision!r} is for encoders of the hub, and {folder} is a folder; leave it out")
        place = Location(str(folder), is_folder=True)
    elif isinstance(model, os.PathLike) or text.startswith((".", "~", "/")) or text.count("/") > 1:
        raise EncoderError(f"there is no folder {folder}; give the folder of an encoder, or its id on the hub")
    else:
        place = _on_hub(Location(text, revision=revision))
    return _transformer_part(place)


def last_layer(location: Location) -> int:
    """The number of the last layer, from the configuration alone; the embeddings are layer 0."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(location.place, subfolder=location.subfolder, revision=location.revision)
    except (OSError, ValueError) as error:
        raise explain(location, error) from None
    return int(config.num_hidden_layers)


def explain(location: Location, error: Exception) -> EncoderError:
    """One sentence for what transformers or the hub said at length."""
    reason = _WHY.get(type(error).__name__) or (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    if "trust_remote_code" in str(error):
        return EncoderError(
            f"{location.name!r} brings code of its own; read it first, then allow it with trust_remote_code=True "
            "(--trust-remote-code)"
        )
    if location.is_folder:
        return EncoderError(f"{location.place} is not the folder of an encoder ({reason}); it is what save_pretrained writes")
    if _offline():
        return EncoderError(
            f"{location.name!r} is not in the hub's cache and HF_HUB_OFFLINE is set; unset it to download, or give a folder"
        )
    return EncoderError(
        f"{location.name!r} could not be had from the hub ({reason}); check id, revision and connection, or give a folder"
    )


_WHY = {
    "RepositoryNotFoundError": "there is no such entry, or it is private",
    "GatedRepoError": "access to it must be asked for on its page",
    "RevisionNotFoundError": "there is no such revision of it",
    "LocalEntryNotFoundError": "the hub cannot be reached, and its cache has no copy",
}


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def _transformer_part(location: Location) -> Location:
    modules = _json(location, "modules.json")
    if not modules:
        if location.is_folder and not (Path(location.place) / "config.json").is_file():
            raise EncoderError(
                f"{location.place} has no config.json, so it is not the folder of an encoder; give one that has it"
            )
        return location
    part = next((entry for entry in modules if str(entry.get("type", "")).endswith("Transformer")), None)
    if part is None:
        kinds = ", ".join(str(entry.get("type", "")).rpartition(".")[2] for entry in modules)
        raise EncoderError(f"{location.name!r} has no transformer among its modules ({kinds}); there are no layers to read")
    subfolder = str(part.get("path", ""))
    settings = _json(location, f"{subfolder}/sentence_bert_config.json".lstrip("/")) or {}
    return replace(location, subfolder=subfolder, max_length=settings.get("max_seq_length"))


def _on_hub(location: Location) -> Location:
    """The same with its revision pinned to the commit that is there, so that all files are of one state."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        path = _hub_file(location, "config.json")
    except LocalEntryNotFoundError as error:
        # Some sentence-transformers models have no such file at their root; looking further must not wait for the hub again.
        known = try_to_load_from_cache(location.place, "modules.json", revision=location.revision)
        if not isinstance(known, str):
            raise explain(location, error) from None
        path = Path(known)
    except (OSError, ValueError) as error:
        raise explain(location, error) from None
    commit = re.search(r"/snapshots/([0-9a-f]{40})/", path.as_posix()) if path is not None else None
    return replace(location, revision=commit[1] if commit else location.revision)


def _hub_file(location: Location, file: str) -> Path | None:
    """A file of an entry, downloaded or from the cache; None where the entry has no such file."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(location.place, file, revision=location.revision))
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return None


def _json(location: Location, file: str) -> Any:
    """The content of a file that need not be there, in a folder or on the hub."""
    path: Path | None = Path(location.place) / file
    if not location.is_folder:
        try:
            path = _hub_file(location, file)
        except (OSError, ValueError):  # an entry that is only in part in the cache has no copy of what it does not need
            path = None
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else None

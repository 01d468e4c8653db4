"""A run on the Hugging Face hub: what is pushed, and how it is loaded.

``transformers`` and ``timm`` open the root of the repository (``transformers/`` of the run, if it exists); the folder
``positively`` is the run itself. Names, hashes and scores of images, the report and local paths are not pushed. The
landmarks of a kernel head are: embeddings of some images of the table.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import huggingface_hub

import positively
from positively.errors import FileError, RunError, short
from positively.files import file_digest, write_text, write_with
from positively.manifest import Manifest
from positively.runs.card import score_meaning
from positively.runs.folder import RunFolder
from positively.runs.saving import load_model_config

_LANDMARKS = """
The kernel head compares an image with embeddings of some training images, which are part of the weights.
"""
FOLDER = "positively"
"""Folder of the run in a repository."""
_SECONDS_TO_ANSWER = 10


def write_hub_folder(folder: RunFolder, out: Path, repo_id: str | None = None) -> Path:
    """Write what would be pushed into a new or empty folder.

    Args:
        folder: The run.
        out: The folder.
        repo_id: Name of the repository, for its card; by default that of the run.
    """
    config = load_model_config(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileError(f"{out} already exists. Choose a new folder.")
    exported = folder.path / "transformers"
    opens = (exported / "config.json").exists()
    files = {out / name: exported / name for name in ("config.json", "model.safetensors")} if opens else {}
    for file in (folder.weights, folder.probe, folder.network, folder.calibration, folder.model):
        if file.exists():
            files[out / FOLDER / file.name] = file
    try:
        for target, source in files.items():
            write_with(target, partial(shutil.copyfile, folder.verified(source)))
        write_with(out / FOLDER / folder.thresholds.name, partial(shutil.copyfile, folder.thresholds))
        Manifest(out / FOLDER).write({file.name: file_digest(file) for file in files if file.parent.name == FOLDER})
        write_text(out / "README.md", _card(folder, config, repo_id or folder.path.resolve().name, opens))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # it was new or empty
        raise
    return out


def push_to_hub(folder: RunFolder, repo_id: str, **options: Any) -> str:
    """Push a run to the hub, and return the address of the commit.

    Args:
        folder: The run.
        repo_id: Repository, such as ``me/tagger``; it is made if it is not there.
        **options: ``private``, ``token``, ``branch``, ``create_pr``, ``commit_message`` as in the hub's own mixin.
    """
    token, branch = options.get("token"), options.get("branch")
    with tempfile.TemporaryDirectory() as place:
        made = write_hub_folder(folder, Path(place) / "hub", repo_id)
        try:
            api = huggingface_hub.HfApi(token=token, library_name=FOLDER, library_version=positively.__version__)
            name = api.create_repo(repo_id, private=options.get("private"), exist_ok=True).repo_id
            if branch is not None:
                api.create_branch(name, branch=branch, exist_ok=True)
            commit = api.upload_folder(
                repo_id=name,
                folder_path=made,
                commit_message=options.get("commit_message") or "Push a run of positively",
                revision=branch,
                create_pr=options.get("create_pr"),
                delete_patterns=["config.json", "model.safetensors", f"{FOLDER}/*"],  # of an earlier run
            )
        except Exception as reason:  # each version of the hub's client has its own exceptions
            raise RunError(
                f"{folder.path} cannot be pushed to {repo_id!r} ({short(reason)}). Are you logged in (hf auth login)?"
            ) from reason
    return str(commit)


def find_run(name_or_path: str | Path, **options: Any) -> Path:
    """Find the folder of a run: a local run, the folder of a dry run, or a repository of the hub.

    Args:
        name_or_path: The folder, or the name of the repository.
        **options: ``revision``, ``token``, ``cache_dir``, ``local_files_only``, ``force_download`` of the hub's client.
    """
    path = Path(name_or_path)
    if not path.is_dir():
        try:
            fetched = huggingface_hub.snapshot_download(
                str(name_or_path), allow_patterns=[f"{FOLDER}/*"], etag_timeout=_SECONDS_TO_ANSWER, **options
            )
        except Exception as reason:
            raise RunError(
                f"{str(name_or_path)!r} is not a folder and cannot be downloaded from the hub ({short(reason)})."
            ) from reason
        path = Path(str(fetched))
    inside = path / FOLDER
    if not RunFolder(inside).is_finished and not RunFolder(path).is_finished:
        raise RunError(f"{str(name_or_path)!r} does not contain a run of positively.")
    return inside if RunFolder(inside).is_finished else path


def _card(folder: RunFolder, config: dict[str, Any], repo_id: str, opens: bool) -> str:
    tags = ["multi-label-classification", "image-classification", FOLDER, *(["timm"] if opens else [])]
    others = f"""

    from transformers import pipeline
    pipeline("image-classification", model="{repo_id}")("photo.jpg", top_k=1000)

    import timm
    network = timm.create_model("hf-hub:{repo_id}", pretrained=True)

Both use the linear head."""
    classes = ", ".join(f"`{name}`" for name in config["classes"])
    return f"""---
library_name: {"transformers" if opens else FOLDER}
pipeline_tag: image-classification
tags: [{", ".join(tags)}]
---

# {repo_id.rpartition("/")[2]}

A multi-label image classifier trained from positive tags with `{config["method"]}` by positively
{positively.__version__}: backbone `{config["backbone"]}` at {config["image_size"]} px, head `{config["head"]}`.

    import positively as po
    po.Run.from_pretrained("{repo_id}").predict("photo.jpg"){others if opens else ""}

{score_meaning(folder)}

{len(config["classes"])} classes: {classes}.
{_LANDMARKS if config["head"] == "kernel" else ""}"""

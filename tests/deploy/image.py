"""`deploy/Dockerfile`, built and run without a container engine.

Each step runs as written in the file, in namespaces with a separate root. Where an engine would
fetch a base image, the root starts as a view of this system: its /usr, /etc and /var, and its
Python, each below a writable layer. This requires root, and Linux with overlayfs. The layers are in
memory, since the disk may itself be an overlay, which cannot hold another one. All mounts and child
processes end with this process, however it ends.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PYTHON = sys.base_prefix.strip("/")
LAYERED = ("usr", "etc", "var", *(() if PYTHON.startswith("usr") else (PYTHON,)))
LINKS = ("bin", "sbin", "lib", "lib64")  # on Debian they link into /usr
PASSED = re.compile(r"(PIP|UV)_\w+|(https?|no|all)_proxy|SSL_CERT_\w+", re.IGNORECASE)
"""Variables of this machine for fetching packages; an engine would get the same ones."""


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction: RUN, COPY, …, and the rest of its line."""

    word: str
    rest: str


@dataclass(frozen=True, slots=True)
class Layers:
    """A namespace with a file system in memory, which the process `keeper` keeps alive."""

    folder: Path
    keeper: int


@contextmanager
def layers_in_memory(folder: Path) -> Iterator[Layers]:
    """Mount a file system in memory on this folder, for this process only."""
    folder.mkdir()
    steps = 'mount --make-rprivate / && mount -t tmpfs tmpfs "$0" && echo ready && exec cat'
    command = ("unshare", "--mount", "sh", "-c", steps, str(folder))
    # cat reads until its input is closed, which also happens when this process ends.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout
        assert keeper.stdout.readline() == b"ready\n", "no file system can be mounted here"
        yield Layers(folder, keeper.pid)


@dataclass
class Stage:
    """A root in which steps run."""

    name: str
    folder: Path
    layers: Layers
    environ: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0:0"
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    health: Sequence[str] = ()
    volumes: Sequence[str] = ()

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def place(self, path: str) -> Path:
        """Return the path of a file of the image; files in the layers are not supported."""
        where = Path("/", self.workdir, path)
        assert not str(where).startswith(tuple(f"/{name}/" for name in LAYERED)), where
        return self.root / where.relative_to("/")

    def prepare(self) -> None:
        """Create the root of a base image."""
        for name in (*LAYERED, "dev", "proc", "tmp", "root"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "tmp").chmod(0o1777)
        for name in LINKS:
            if Path("/", name).is_symlink():
                (self.root / name).symlink_to(os.readlink(f"/{name}"))
        self.environ["PATH"] = f"{sys.base_prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin"

    def enter(
        self,
        command: Sequence[str],
        *,
        binds: Mapping[str, Path],
        environ: Mapping[str, str],
        is_final: bool,
    ) -> list[str]:
        """Return the command line that runs this in the root. `is_final` runs it as compose.yaml
        does: read-only, as its user, without further rights."""
        root = self.root
        steps = ["set -e", "mount --make-rprivate /", f"mount --bind {root} {root}"]
        for name in LAYERED:
            upper, work = (
                f"{self.layers.folder}/{self.name}/{one}/{name}" for one in ("up", "work")
            )
            steps.append(f"mkdir -p {upper} {work}")
            options = f"lowerdir=/{name},upperdir={upper},workdir={work}"
            if is_final:  # several run at once, and an upper layer may belong to only one mount
                options = f"lowerdir={upper}:/{name}"
            steps.append(f"mount -t overlay none -o {options} {root}/{name}")
        for target, source in {"/dev": Path("/dev"), **binds}.items():
            steps += [f"mkdir -p {root}{target}", f"mount --rbind {source} {root}{target}"]
        steps.append(f"mount -t proc proc {root}/proc")
        rights: Sequence[str] = ()
        if is_final:
            steps.append(f"mount -t tmpfs -o mode=1777,size=64m tmpfs {root}/tmp")
            steps.append(f"mount -o remount,bind,ro {root}")
            user, group = self.user.split(":")
            rights = ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups")
            rights = (*rights, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
        words = ("env", "-i", *(f"{name}={value}" for name, value in environ.items()), *rights)
        inner = shlex.join(("sh", "-c", f'cd {self.workdir} && exec "$@"', "sh", *command))
        steps.append(f"exec chroot {root} {shlex.join(words)} {inner}")
        keeper = f"--mount=/proc/{self.layers.keeper}/ns/mnt"
        space = ("setpriv", "--pdeathsig=KILL", "nsenter", keeper, "unshare", "--mount")
        return [*space, "--pid", "--fork", "--kill-child=SIGKILL", "sh", "-c", "\n".join(steps)]


def read(text: str) -> Iterator[Step]:
    """Return the steps of a Dockerfile."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        yield Step(word, re.sub(r" +", " ", rest.strip()))


def build(layers: Layers, cache: Path, arguments: Mapping[str, str], context: Path = ROOT) -> Stage:
    """Run all steps beside the layers, and return the last stage. `cache` stores downloads."""
    stages: list[Stage] = []
    umask = os.umask(0o022)  # an engine's value; with another one, only root could read the image
    try:
        for step in read(DOCKERFILE.read_text("utf-8")):
            if step.word == "FROM":
                assert step.rest.split(" ")[0] == "${BASE}"
                name = step.rest.partition(" AS ")[2] or "last"
                stages.append(Stage(name, layers.folder.with_name(name), layers))
                stages[-1].prepare()
            elif stages:
                execute(step, stages, cache, arguments, context)
    finally:
        os.umask(umask)
    return stages[-1]


def execute(
    step: Step, stages: Sequence[Stage], cache: Path, arguments: Mapping[str, str], context: Path
) -> None:
    """Run one step in the last of these stages."""
    stage = stages[-1]
    match step.word:
        case "RUN":
            run(step.rest, stage, cache)
        case "COPY":
            copy(step.rest, stages, context)
        case "WORKDIR":
            stage.workdir = step.rest
            stage.place(".").mkdir(parents=True, exist_ok=True)
        case "ARG":
            name, _, usual = step.rest.partition("=")
            stage.arguments[name] = arguments.get(name, usual.strip('"'))
        case "ENV":
            for pair in shlex.split(step.rest):
                name, _, value = pair.partition("=")
                stage.environ[name] = value.replace("$PATH", stage.environ["PATH"])
        case _:
            note(step, stage)


def note(step: Step, stage: Stage) -> None:
    """Store the image's settings for running it."""
    if step.word == "USER":
        stage.user = step.rest
    elif step.word == "HEALTHCHECK":
        stage.health = json.loads(step.rest.partition(" CMD ")[2])
    elif step.word != "EXPOSE":
        name = {"VOLUME": "volumes", "ENTRYPOINT": "entrypoint", "CMD": "command"}[step.word]
        setattr(stage, name, json.loads(step.rest))


def copy(rest: str, stages: Sequence[Stage], context: Path) -> None:
    *sources, target = rest.split(" ")
    base = context
    if sources[0].startswith("--from="):
        name = sources.pop(0).removeprefix("--from=")
        (base,) = (one.root for one in stages if one.name == name)
    for source in sources:
        origin, place = base / source.lstrip("/"), stages[-1].place(target)
        if origin.is_dir() and base is context:
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(origin, place, ignore=skip, dirs_exist_ok=True)
        elif origin.is_dir():  # files in an image never change later, so a link can replace a copy
            place.mkdir(parents=True, exist_ok=True)
            command = ("cp", "--archive", "--link", f"{origin}/.", str(place))
            subprocess.run(command, check=True)
        else:
            where = place / origin.name if target.endswith("/") else place
            where.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(origin, where)


def run(rest: str, stage: Stage, cache: Path) -> None:
    options, binds = "", {}
    if found := re.match(r"--mount=type=cache,target=(\S+) ", rest):
        options, binds = found[0], {found[1]: cache}
    passed = {name: value for name, value in os.environ.items() if PASSED.fullmatch(name)}
    command = stage.enter(
        ("sh", "-c", rest.removeprefix(options)),
        binds=binds,
        environ={"HOME": "/root", **passed, **stage.arguments, **stage.environ},
        is_final=False,
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, f"RUN {rest}\n{done.stdout}\n{done.stderr}"


@dataclass
class Container:
    """A run of an image, with its volumes in a folder of this machine."""

    image: Stage
    folder: Path
    environ: Mapping[str, str]

    def __post_init__(self) -> None:
        for volume in self.image.volumes:  # as an engine does, with files and owner
            place = self.folder / volume.strip("/")
            if not place.exists():
                source = self.image.place(volume)
                shutil.copytree(source, place)
                os.chown(place, source.stat().st_uid, source.stat().st_gid)

    def line(self, *command: str) -> list[str]:
        """Return the command line that runs this in the container."""
        binds = {volume: self.folder / volume.strip("/") for volume in self.image.volumes}
        environ = {**self.image.environ, **self.environ}
        return self.image.enter(command, binds=binds, environ=environ, is_final=True)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container."""
        line = self.line(*command)
        return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def parley(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the image with these arguments in place of its own."""
        return self.run(*self.image.entrypoint, *arguments)

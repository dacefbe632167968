"""Reads a folder of configurations, ours or anybody's: ``DIR/<device>/<file>``, each device in the format its files show."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from railwright.build import frr, hosts, nvue, sonic
from railwright.build.contract import CARRIES, Reading
from railwright.build.hosts import HostReading
from railwright.errors import InputError

EOS_FILES = ("startup-config", "running-config", "eos.conf", "eos.cfg")
NVUE_FILES = (nvue.FILE, "nvue.yaml", nvue.COMMANDS)
HOST_FILES = (hosts.CONTRACT, hosts.DUMP)
_READ = (sonic.FILE, sonic.PATHS, *NVUE_FILES, *EOS_FILES, frr.FILE, *HOST_FILES, hosts.NETPLAN, hosts.NCCL)

_NEVER_EMPTY = frozenset({sonic.FILE, *NVUE_FILES, *EOS_FILES, frr.FILE})


@dataclass(frozen=True)
class Readings:
    """All that a set of configurations says."""

    switches: tuple[Reading, ...]
    servers: tuple[HostReading, ...]

    def all(self) -> list[Reading | HostReading]:
        """Return switches and servers."""
        return [*self.switches, *self.servers]


def read_configs(directory: Path) -> Readings:
    """Read every device folder of ``directory``; paths in the readings are relative to it.

    A folder named after an operating system inside a build for several is read with the servers beside it.
    Raises InputError when there is no device, or for a file that is not what its name says, with the line.
    """
    if not directory.is_dir():
        raise InputError("is not a folder; give one with a folder per device", file=directory)
    folders = {path.name: path for path in directory.iterdir() if path.is_dir() and not path.name.startswith(".")}
    systems = sorted(
        name for name in folders if name in CARRIES and any(path.is_dir() for path in folders[name].iterdir())
    )
    if systems:
        raise InputError(
            f"has a folder per operating system ({', '.join(systems)}); give one of them: {directory / systems[0]}",
            file=directory,
        )
    if directory.resolve().name in CARRIES:  # the servers of a build for several systems stand beside their folders
        folders |= {path.name: path for path in directory.resolve().parent.glob("*/") if _is_shared(path)}
    files = {
        f"{path.parent.name}/{path.name}": _text(path)
        for _, folder in sorted(folders.items())
        for path in sorted(folder.iterdir())
        if path.is_file() and _is_read(path.name)
    }
    found = read_files(files)
    if not found.switches and not found.servers:
        raise InputError(f"no device is here: needs folders DEVICE with one of {', '.join(_READ)}", file=directory)
    return found


def read_files(files: Mapping[str, str]) -> Readings:
    """Read files by path ``DEVICE/FILE`` (or ``NOS/DEVICE/FILE``); others are left alone.

    Raises InputError for a switch's file that is empty or not what its name says.
    """
    of_device: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        folder, _, name = path.rpartition("/")
        if folder and _is_read(name):
            of_device.setdefault(folder.rpartition("/")[2], {})[name] = text
    switches: list[Reading] = []
    servers: list[HostReading] = []
    for device, texts in sorted(of_device.items()):
        found = _read_device(device, texts)
        if isinstance(found, Reading):
            switches.append(found)
        elif found is not None:
            servers.append(found)
    return Readings(tuple(switches), tuple(servers))


def _read_device(device: str, present: Mapping[str, str]) -> Reading | HostReading | None:
    def texts(*names: str) -> dict[str, str]:
        found = {f"{device}/{name}": present[name] for name in names if name in present}
        for path, text in found.items():
            if path.rpartition("/")[2] in _NEVER_EMPTY and not _says_anything(text):
                raise InputError(
                    "the file is empty: it has no statement, a switch's configuration is expected", file=path
                )
        return found

    if sonic.FILE in present:
        return sonic.read(device, texts(sonic.FILE, sonic.PATHS, frr.FILE))
    for name in NVUE_FILES:
        if name in present:
            return nvue.read(device, texts(name))
    for name in EOS_FILES:
        if name in present:
            from railwright.build import eos

            return eos.read(device, texts(name))
    if hosts.DUMP in present:
        return hosts.read(device, texts(hosts.DUMP))
    if hosts.CONTRACT in present:
        keyfiles = (name for name in present if name.endswith(hosts.KEYFILE))
        return hosts.read(device, texts(hosts.CONTRACT, hosts.NETPLAN, *keyfiles, hosts.NCCL))
    if frr.FILE in present:
        return frr.read(device, texts(frr.FILE))
    return None


def _says_anything(text: str) -> bool:
    """Say whether a line is more than a comment or the closing ``end``."""
    return any(line.strip() not in ("", "end") and line.strip()[0] not in "!#" for line in text.splitlines())


def _is_read(name: str) -> bool:
    return name in _READ or name.endswith(hosts.KEYFILE)


def _is_shared(folder: Path) -> bool:
    return folder.name not in CARRIES and any((folder / name).is_file() for name in (*HOST_FILES, frr.FILE))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None

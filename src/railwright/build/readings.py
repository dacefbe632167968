"""Reads a folder of configurations, ours or anybody's: ``DIR/<device>/<file>``, each device in the format its files show."""

from dataclasses import dataclass
from pathlib import Path

from railwright.build import frr, hosts, nvue, sonic
from railwright.build.contract import Reading
from railwright.build.hosts import HostReading
from railwright.errors import InputError

EOS_FILES = ("startup-config", "running-config", "eos.conf", "eos.cfg")
NVUE_FILES = (nvue.FILE, "nvue.yaml", nvue.COMMANDS)
HOST_FILES = (hosts.CONTRACT, hosts.DUMP)


@dataclass(frozen=True)
class Readings:
    """All that a folder says. ``unread`` are its folders without a file that we know."""

    switches: tuple[Reading, ...]
    servers: tuple[HostReading, ...]
    unread: tuple[str, ...]

    def all(self) -> list[Reading | HostReading]:
        """Return switches and servers."""
        return [*self.switches, *self.servers]


def read_configs(directory: Path) -> Readings:
    """Read every device folder of ``directory``; paths in the readings are relative to it.

    Raises InputError when there is no device, or for a file that is not what its name says, with the line.
    """
    if not directory.is_dir():
        raise InputError("is not a folder; give one with a folder per device", file=directory)
    switches: list[Reading] = []
    servers: list[HostReading] = []
    unread: list[str] = []
    for folder in sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith(".")):
        found = _read_device(directory, folder)
        if isinstance(found, Reading):
            switches.append(found)
        elif found is not None:
            servers.append(found)
        else:
            unread.append(folder.name)
    if not switches and not servers:
        wanted = ", ".join((sonic.FILE, *NVUE_FILES, *EOS_FILES[:2], frr.FILE, *HOST_FILES))
        raise InputError(f"no device is here: needs folders DEVICE with one of {wanted}", file=directory)
    return Readings(tuple(switches), tuple(servers), tuple(unread))


def _read_device(directory: Path, folder: Path) -> Reading | HostReading | None:
    present = {path.name for path in folder.iterdir() if path.is_file()}

    def texts(*names: str) -> dict[str, str]:
        return {f"{folder.name}/{name}": _text(directory / folder.name / name) for name in names if name in present}

    if sonic.FILE in present:
        return sonic.read(folder.name, texts(sonic.FILE, frr.FILE))
    for name in NVUE_FILES:
        if name in present:
            return nvue.read(folder.name, texts(name))
    for name in EOS_FILES:
        if name in present:
            from railwright.build import eos

            return eos.read(folder.name, texts(name))
    if hosts.DUMP in present:
        return hosts.read(folder.name, texts(hosts.DUMP))
    if hosts.CONTRACT in present:
        return hosts.read(folder.name, texts(hosts.CONTRACT, hosts.NETPLAN, hosts.NCCL))
    if frr.FILE in present:
        return frr.read(folder.name, texts(frr.FILE))
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None

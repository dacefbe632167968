"""Loads cables with several ends into NetBox. Runs by itself: Python 3.9 or newer, nothing to install.

NetBox's import of cables takes one object per side, so breakouts go through its REST API, which wants the numbers of
interfaces. This asks for them by name and sends the cables in portions.

    NETBOX_TOKEN=... python load_breakouts.py https://netbox.example 14-breakout-cables.json
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

PORTION = 100
"""Cables per request."""


class Api:
    """The REST API at ``url`` with ``token`` (either kind that NetBox has)."""

    def __init__(self, url: str, token: str) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise SystemExit(f"{url!r} is no http or https address")
        self._url = url.rstrip("/")
        kind = "Bearer" if token.startswith("nbt_") else "Token"
        self._headers = {
            "Authorization": f"{kind} {token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }

    def send(self, path: str, body: object = None) -> dict[str, Any]:
        """Return the answer to a request: POST with a ``body``, GET without."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, self._headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path}: {error.code} {error.read().decode(errors='replace')}") from None

    def interfaces(self, device: str) -> dict[str, int]:
        """Return the numbers of the interfaces of ``device`` by name."""
        found: dict[str, int] = {}
        while True:
            query = urllib.parse.urlencode({"device": device, "limit": 500, "offset": len(found)})
            page = self.send(f"/api/dcim/interfaces/?{query}")
            found.update({entry["name"]: entry["id"] for entry in page["results"]})
            if not page["next"] or not page["results"]:
                return found


def load(api: Api, cables: list[dict[str, Any]]) -> int:
    """Send ``cables`` (as in the file) and return how many were made; stops at the first name that NetBox lacks."""
    known: dict[str, dict[str, int]] = {}

    def number(end: dict[str, Any]) -> dict[str, Any]:
        device, name = end["device"], end["name"]
        if device not in known:
            known[device] = api.interfaces(device)
        if name not in known[device]:
            raise SystemExit(f"NetBox has no interface {name!r} on {device!r}: import the files before this one first")
        return {"object_type": end["object_type"], "object_id": known[device][name]}

    bodies = [
        {
            **cable,
            "a_terminations": [number(end) for end in cable["a_terminations"]],
            "b_terminations": [number(end) for end in cable["b_terminations"]],
        }
        for cable in cables
    ]
    for first in range(0, len(bodies), PORTION):
        api.send("/api/dcim/cables/", bodies[first : first + PORTION])
    return len(bodies)


def main(arguments: list[str]) -> None:
    """Load the file named in ``arguments`` into the NetBox named there."""
    token = os.environ.get("NETBOX_TOKEN", "")
    if len(arguments) != 2 or not token:
        raise SystemExit("usage: NETBOX_TOKEN=... python load_breakouts.py URL FILE.json")
    url, file = arguments
    print(f"{load(Api(url, token), json.loads(Path(file).read_text(encoding='utf-8')))} cables made")


if __name__ == "__main__":
    main(sys.argv[1:])

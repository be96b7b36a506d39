"""Print the OpenAPI document of the service with its default settings and no model: `python -m clients.openapi`.

The clients' types are made from it, and the linter reads it; a running service adds the limits of its own settings and
the length of its model's vectors.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import SecretStr

from service.http.app import create_api
from service.settings import Settings
from service.worker import Worker


def document() -> dict[str, Any]:
    """Return the document of a service that has keys, so that it says which calls need one."""
    with TemporaryDirectory() as folder:
        # Not read from the environment of whoever runs this.
        keys: dict[str, Any] = {"api_keys": SecretStr("any:any-secret"), "admin_key": SecretStr("any-secret")}
        return create_api(Worker(Settings.model_construct(models=Path(folder), **keys))).openapi()


def text() -> str:
    """Return the document as it is kept in clients/openapi.json."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())

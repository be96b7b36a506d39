"""Try an installed wheel as a user would: make the demo model, serve it, ask it, and look at its pages."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import greedy_core
import service

for package in (greedy_core, service):
    if "site-packages" not in package.__file__:
        sys.exit(f"{package.__name__} is not the installed one: {package.__file__}")

command = str(Path(sys.executable).with_name("budgetrec"))
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([command, "demo", "--only-make", "--models", folder], check=True, stdout=subprocess.DEVNULL)
    serving = subprocess.Popen(
        [command, "serve", "--models", folder, "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "BUDGETREC_LOG_FORMAT": "json"},
    )
    try:
        for line in serving.stderr:
            if line.startswith("{") and json.loads(line)["event"] == "model ready":
                break
            if line.startswith("{") and json.loads(line)["event"] == "serving":
                address = json.loads(line)["address"]
        for path in (
            "/",
            "/static/page/main.js",
            "/docs",
            "/redoc",
            "/static/swagger-ui/swagger-ui-bundle.js",
            "/openapi.json",
            "/metrics",
        ):
            with urllib.request.urlopen(address + path, timeout=30) as answer:
                answer.read()
        with urllib.request.urlopen(f"{address}/recommend?user_id=42&budget=64", timeout=30) as answer:
            receipt = json.load(answer)
    finally:
        serving.terminate()
        serving.communicate(timeout=60)
if receipt["spent"] > 64 or not receipt["items"]:
    sys.exit(f"a strange receipt: {receipt}")
print(f"python {sys.version.split()[0]}: {len(receipt['items'])} items for {receipt['spent']} products")

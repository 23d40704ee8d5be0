"""Makes the keys of the desk once, each in the folder that only the role with that key mounts.

    python keys.py /keys

The desk encrypts its sessions and signs decisions; workers only check the signatures. Nothing is
changed where the keys are there.
"""

import base64
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a file whole, readable by this user alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "w") as file:
        file.write(text)
    draft.replace(path)


def main(folder: Path) -> None:
    """Make what is missing."""
    session, private = folder / "desk" / "session", folder / "desk" / "identity"
    public = folder / "worker" / "identity"
    if not session.exists():
        write(session, base64.b64encode(secrets.token_bytes(32)).decode())
    if not (private.exists() and public.exists()):
        made = subprocess.run(
            ["outlast", "identity", "new", "--json"], capture_output=True, check=True
        )
        pair = json.loads(made.stdout)
        # The private key comes last: whoever is killed between them makes both again.
        private.unlink(missing_ok=True)
        write(public, pair["OUTLAST_IDENTITY_PUBLIC_KEYS"])
        write(private, pair["OUTLAST_IDENTITY_KEY"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

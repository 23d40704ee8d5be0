"""Serves S3 from memory, as a program: `s3_program.py PORT` prints its port and a key first.

It is moto's: it checks signatures and policies, and answers in pages as S3 does. What it stores is
lost with the process. The bucket `archive` is empty, `many` has more objects than a page, and the
user with the key may use all buckets.
"""

import json
import sys
from typing import Any

from moto import settings
from moto.backends import get_backend
from moto.moto_server.werkzeug_app import (  # pyright: ignore[reportMissingTypeStubs]
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

ACCOUNT = "123456789012"
REGION = "us-east-1"
MANY = 1_100
ALLOWED = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


def main() -> None:
    s3: Any = get_backend("s3")[ACCOUNT]["aws"]
    for bucket in ("archive", "many"):
        s3.create_bucket(bucket, REGION)
    for number in range(MANY):
        s3.put_object("many", f"runs/{number % 100:02}/{number}.json", b"{}")
    iam: Any = get_backend("iam")[ACCOUNT]["aws"]
    iam.create_user(REGION, "worker")
    iam.put_user_policy("worker", "all", json.dumps(ALLOWED))
    key = iam.create_access_key("worker")
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    app: Any = DomainDispatcherApplication(create_backend_app)
    server = make_server(
        "127.0.0.1", int(sys.argv[1]), app, threaded=True, request_handler=MotoRequestHandler
    )
    print(json.dumps([server.server_port, key.access_key_id, key.secret_access_key]), flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()

# One image for every role, with the support desk of the examples in it: a worker, the desk, the
# archiver, and each command of `outlast`. `outlast init` writes an image like it for a project.
#
#     docker run IMAGE worker TARGET | serve TARGET | archive run | list | doctor | ...
#
# It needs nothing of its own file system but /tmp: run it with --read-only --tmpfs /tmp.
FROM python:3.13-slim AS wheel
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE CHANGELOG.md ./
COPY outlast outlast
COPY examples examples
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
# What the roles need; no server for development is among it.
ARG EXTRAS=blobs,cli,encrypt,identity,mcp,monitor,otel,search,serve,speed
COPY --from=wheel /wheels /wheels
# A volume that is mounted at one of the folders gets its owner.
RUN pip install --no-cache-dir "$(echo /wheels/outlast-*.whl)[${EXTRAS}]" \
    && useradd --no-create-home --home-dir /tmp --uid 10001 outlast \
    && mkdir -p /data /archive /search /keys/desk /keys/worker \
    && chown -R outlast /data /archive /search /keys
ENV PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
COPY examples examples
USER 10001
ENTRYPOINT ["outlast"]
CMD ["worker", "support_desk.app", "--app-dir", "examples"]

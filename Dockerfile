# The worker of the example, and a start for your own. `outlast init` writes one for a project.
FROM python:3.13-slim AS wheel
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE CHANGELOG.md ./
COPY outlast outlast
COPY examples examples
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/outlast-*.whl)[cli]" \
    && useradd --create-home --uid 10001 outlast \
    && mkdir /data \
    && chown outlast /data
WORKDIR /app
COPY examples examples
USER 10001
CMD ["outlast", "worker", "support_desk.app", "--app-dir", "examples"]

# The worker of the example, and a start for your own.
FROM python:3.13-slim

WORKDIR /app
COPY pyproject.toml hatch_build.py README.md LICENSE CHANGELOG.md ./
COPY outlast outlast
COPY examples examples
RUN pip install --no-cache-dir ".[cli,dev]" && useradd --create-home outlast && mkdir /data && chown outlast /data
USER outlast
CMD ["outlast", "worker", "support_desk.app", "--app-dir", "examples"]

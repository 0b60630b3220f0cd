# An environment that OpenEnv clients play, as agent_envs.adapters.openenv serves it.
#
#   docker build -t agent-envs/server -f docker/server.Dockerfile .
#   docker run --rm -p 127.0.0.1:8000:8000 agent-envs/server agent/Calculator-v0
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
WORKDIR /agent-envs
ARG PACKAGES="openenv==0.10.* uvicorn"
RUN python3 -m pip install --no-cache-dir ${PACKAGES} && useradd --uid 1000 server
COPY . .
RUN python3 -m pip install --no-cache-dir --editable ".[sql]"
USER server
EXPOSE 8000
ENTRYPOINT ["python3", "-m", "agent_envs.adapters.openenv", "--host", "0.0.0.0"]
CMD ["agent/Calculator-v0"]

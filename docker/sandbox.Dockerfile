# Where model code runs: the image of Sandbox("docker"). Any image with Python 3.11 does; this one adds packages.
#
#   docker build -t agent-envs/sandbox -f docker/sandbox.Dockerfile --build-arg PACKAGES="numpy pandas" docker
#   AGENT_ENVS_DOCKER_IMAGE=agent-envs/sandbox python ...        then Sandbox("docker", packages=["numpy"])
#
# Nothing of agent-envs is in it: what runs inside comes with each container. Offline: --build-arg BASE=, an image
# that was imported.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
ARG PACKAGES=""
RUN if [ -n "${PACKAGES}" ]; then python3 -m pip install --no-cache-dir ${PACKAGES}; fi
LABEL org.opencontainers.image.title="agent-envs sandbox"
USER 65534:65534
CMD ["python3"]

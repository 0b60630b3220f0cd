# Chromium for agent/Browser-v0 where there is none, reached over CDP.
#
#   docker build -t agent-envs/browser -f docker/browser.Dockerfile docker
#   gymnasium.make("agent/Browser-v0", isolation="container")
#
# The environment starts it with a command of its own, without a network and without a port: see
# envs/browser/container.py. It can be run by hand too, for any client of CDP:
#
#   docker run --rm -p 127.0.0.1:9222:9222 --security-opt no-new-privileges --cap-drop ALL agent-envs/browser
#   curl http://127.0.0.1:9222/json/version
#
# Chromium's own sandbox is off: the container is the wall, so give it nothing to find. It listens on its own loopback
# only, whatever it is told; socat passes connections on.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends chromium-headless-shell fonts-dejavu-core socat tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 browser
USER browser
EXPOSE 9222
ENTRYPOINT ["tini", "-g", "--", "/bin/sh", "-c", "\
    socat TCP-LISTEN:9222,fork,reuseaddr TCP:127.0.0.1:9223 & \
    exec chromium-headless-shell --no-sandbox --disable-dev-shm-usage --remote-debugging-port=9223 \
        --user-data-dir=/tmp/profile about:blank"]

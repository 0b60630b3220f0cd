# The trainer with CUDA, and the whole checkout.
#
#   docker build -t agent-envs/trainer -f docker/trainer.Dockerfile .
#   docker run --rm --gpus all agent-envs/trainer train calculator
#
# The checkout is copied whole: agent_envs/ alone has links that point nowhere. torch in the base is kept as it is.
ARG BASE=pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime
FROM ${BASE}
WORKDIR /agent-envs
COPY . .
ARG EXTRAS=train,hf
RUN python3 -m pip install --no-cache-dir --editable ".[${EXTRAS}]"
ENTRYPOINT ["agent-envs"]
CMD ["doctor"]

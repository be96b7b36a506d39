# Two stages: a wheel is compiled in the first; the second has Python, the wheel and nothing to build with.
#
#   docker build -t budgetrec:local .
#   docker run --rm -p 127.0.0.1:8000:8000 budgetrec:local                                 # the demo model
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/models:/models:ro" budgetrec:local serve
ARG PYTHON_IMAGE=python:3.11.11-slim-bookworm

# hadolint ignore=DL3006
FROM ${PYTHON_IMAGE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# Dependencies first: they change less often than the sources.
COPY deploy/constraints.txt deploy/constraints.txt
RUN python -m venv --without-pip /opt/budgetrec \
    && grep -v '^#' deploy/constraints.txt >/tmp/requirements.txt \
    && python -m pip --python /opt/budgetrec/bin/python install --no-cache-dir -r /tmp/requirements.txt
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python -m pip --python /opt/budgetrec/bin/python install --no-cache-dir --no-deps /wheels/*.whl \
    # Tests of other people's packages are a third of their size.
    && find /opt/budgetrec -type d -name tests -prune -exec rm -rf {} +

# hadolint ignore=DL3006
FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="budgetrec" \
      org.opencontainers.image.description="Recommendations that spend exactly the inner products a request gives them" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/budgetrec /opt/budgetrec
# A numeric user, so that Kubernetes can see that it is not root; it owns the place of the demo model.
RUN install -d -o 10001 -g 10001 /models
USER 10001:10001
ENV PATH=/opt/budgetrec/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    BUDGETREC_HOST=0.0.0.0 \
    BUDGETREC_PORT=8000 \
    BUDGETREC_MODELS=/models \
    BUDGETREC_LOG_FORMAT=json
WORKDIR /tmp
EXPOSE 8000
STOPSIGNAL SIGTERM
# Ready, not merely alive: a container without a model is not healthy.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['BUDGETREC_PORT']), timeout=2); c.request('GET', '/health/ready'); sys.exit(c.getresponse().status != 200)"]
# The exec form: the service itself is process 1 and gets the signals.
ENTRYPOINT ["budgetrec"]
CMD ["demo", "--models", "/models"]

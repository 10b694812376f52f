# The image of Tenrec: the program and its packages on a small Debian with Node. It runs as an unprivileged user, keeps
# its data in one volume, and works with a read-only root file system. See docs/OPERATIONS.md, "Install as an image".
#
#   docker build --tag tenrec .
#   podman build --format docker --tag tenrec .      (the OCI format has no HEALTHCHECK)
#
# Other base images need Node 20.19 or newer, 22, 24 or 26 in the search path and glibc 2.28 or newer. BUILDER also
# needs npm, bash and binutils.
ARG BUILDER=docker.io/library/node:22-bookworm
ARG BASE=docker.io/library/node:22-bookworm-slim

FROM ${BUILDER} AS build
# The address of your own npm registry, if you have one.
ARG NPM_CONFIG_REGISTRY=
WORKDIR /build
COPY . .
RUN node .ci/prepare.mjs \
  && mkdir -p /opt/tenrec \
  && .ci/program-tree /opt/tenrec /opt/copyright \
  && mv /opt/copyright LICENSE /opt/tenrec/

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION
LABEL org.opencontainers.image.title="Tenrec" \
  org.opencontainers.image.description="Product events, persons and feature flags over the PostHog wire protocol" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/tenrec /opt/tenrec
RUN ln -s /opt/tenrec/dist/main.js /usr/local/bin/tenrec \
  && echo 'tenrec:x:10001:10001::/var/lib/tenrec:/usr/sbin/nologin' >> /etc/passwd \
  && echo 'tenrec:x:10001:' >> /etc/group \
  && mkdir -p /var/lib/tenrec /var/backups/tenrec \
  && chown 10001:10001 /var/lib/tenrec /var/backups/tenrec \
  && chmod 0700 /var/lib/tenrec /var/backups/tenrec
# The same value as in systemd/tenrec.service.
ENV NODE_ENV=production \
  TENREC_DATA_DIR=/var/lib/tenrec \
  TENREC_HOST=0.0.0.0 \
  TENREC_PORT=8000 \
  UWS_HTTP_MAX_HEADERS_SIZE=65536 \
  MALLOC_ARENA_MAX=2 \
  MALLOC_MMAP_THRESHOLD_=262144 \
  MALLOC_TRIM_THRESHOLD_=4194304
USER 10001:10001
WORKDIR /var/lib/tenrec
VOLUME /var/lib/tenrec
EXPOSE 8000
STOPSIGNAL SIGTERM
# Unhealthy means that the daemon does not answer or refuses requests, for example events on a full disk.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
  CMD tenrec status --base-url "http://127.0.0.1:$TENREC_PORT" || exit 1
ENTRYPOINT ["node", "--min-semi-space-size=16", "--no-memory-reducer", "/opt/tenrec/dist/main.js"]
CMD ["serve"]

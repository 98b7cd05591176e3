# Sluice's image: the static program and certificates, and nothing else. make image
# builds it; the second target is dsqlsim, the stand-in for a cluster.

# An image of Debian with Go.
ARG BUILD_IMAGE=golang:1.26-bookworm
# Where it is built: docker knows, and buildah is told.
ARG BUILDPLATFORM

FROM --platform=${BUILDPLATFORM} ${BUILD_IMAGE} AS build
WORKDIR /src
COPY .ci .ci
RUN .ci/install gcc libc6-dev ca-certificates musl-tools
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Of the machine that the image is for: amd64 or arm64.
ARG TARGETARCH
ARG VERSION
RUN .ci/build /out "${TARGETARCH:-$(go env GOHOSTARCH)}" "${VERSION:?make image sets it}"

# What was built, to be copied out of the build.
FROM scratch AS programs
COPY --from=build /out/ /

FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY LICENSE NOTICE THIRD_PARTY_LICENSES /licenses/
USER 65532:65532

FROM base AS dsqlsim
COPY --from=build /out/dsqlsim /dsqlsim
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="dsqlsim" \
      org.opencontainers.image.description="A stand-in for an Aurora DSQL cluster, for development and tests" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/sluice-proxy/sluice" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENTRYPOINT ["/dsqlsim"]

FROM base AS sluice
COPY --from=build /out/sluice /sluice
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="sluice" \
      org.opencontainers.image.description="A sidecar that lets stock Postgres applications run on Amazon Aurora DSQL" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/sluice-proxy/sluice" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
EXPOSE 5432 9432
ENTRYPOINT ["/sluice"]
CMD ["serve"]

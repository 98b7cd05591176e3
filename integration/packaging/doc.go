// Package packaging checks the files by which Sluice is packaged and run, by rules that need no container engine. The
// files are the Dockerfile with the files it may copy, the Compose file and the systemd unit.
package packaging

// Package packaging holds the files by which Sluice is packed and run to rules that
// need no container engine: the Dockerfile and what it may copy, the composition of
// containers, the unit of systemd.
package packaging

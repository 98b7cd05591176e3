// Command licences writes NOTICE and THIRD_PARTY_LICENSES at the top of the module: the licences of all parts of the
// sluice binary.
//
//	go run ./integration/licences
//
// Command licences gets the packages of the binary from the Go tool, for Linux with cgo, as in the image. A licence
// file counts only if it is in a directory between a linked package and the root of its module. Modules contain
// copies of other projects. The command also searches the comments of C sources beside cgo packages for licences. It
// reads the C libraries of the binary in the linker's map of a static program. The directory texts has the licences
// of these libraries, as Debian's packages have them. A text that is none of the accepted licences is an error,
// because adding a dependency is also a decision about its licence.
//
//	go run ./integration/licences sbom DIR/sluice VERSION
//
// writes DIR/sluice.spdx.json, a list of the same parts with their versions, for a program of .ci/build.
//
// The test of this package compares the two files with the command's output.
package main

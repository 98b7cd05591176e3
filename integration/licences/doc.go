// Command licences writes NOTICE and THIRD_PARTY_LICENSES at the top of the
// module: the licences of everything that the sluice binary contains.
//
//	go run ./integration/licences
//
// What the binary contains is asked of the Go tool, for Linux with cgo, which is
// what the image has. A licence file counts wherever it lies between a linked
// package and the root of its module, since modules hold copies of other
// projects; C sources beside cgo packages are searched for licences in their
// comments. Which C libraries are in it is read in the linker's map of a static
// program; their licences are those of texts, as Debian's packages have them. A
// text that is none of the accepted licences is an error: adding a dependency is a
// decision about its licence, too.
//
//	go run ./integration/licences sbom DIR/sluice VERSION
//
// writes DIR/sluice.spdx.json, a list of the same things with their versions, for a
// program of .ci/build.
//
// The test of this package holds the two files to what the program would write.
package main

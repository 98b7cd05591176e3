// Package network tests the built daemon on networks that fail without a word: packets
// that are dropped, servers that are frozen, peers that acknowledge and do nothing.
//
// The tests run in a network namespace of their own, where a wall (nftables) drops what a
// test names; nothing outside is touched. Root needs no more for it; anybody else needs
// user namespaces, which some systems forbid: then the tests fail and say so.
package network

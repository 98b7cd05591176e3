// Package network tests the built program on networks that fail silently: dropped packets, frozen servers, and peers
// that acknowledge packets and do nothing else.
//
// The tests run in a separate network namespace, where nftables rules drop the packets that a test names. Nothing
// outside the namespace changes. Root needs nothing else. Other users need user namespaces, which some systems forbid;
// the tests then fail with a message that says so.
package network

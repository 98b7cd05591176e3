package proxy

import "os"

// OneIn is how many of the cases of long tables one is played of: most cases begin processes
// of the server's, which is slow on a virtual machine, and the race detector makes each several
// times as long. The usual numbers are prime, so that no form of an inner loop is left out
// always. With CASES=all (make cases) all are played.
var OneIn = oneIn()

func oneIn() int {
	if os.Getenv("CASES") == "all" {
		return 1
	}
	return usualOneIn
}

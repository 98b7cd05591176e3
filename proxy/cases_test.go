package proxy

import "os"

// OneIn is how many of the cases of long tables one is played of: most begin a process of the
// server's, which is slow on a virtual machine, and the race detector makes each several times
// as long. It is prime, so that no form of an inner loop is left out always. With CASES=all
// (make cases) all are played.
var OneIn = map[bool]int{true: 1, false: usualOneIn}[os.Getenv("CASES") == "all"]

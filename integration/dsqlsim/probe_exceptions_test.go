package dsqlsim_test

// probeExceptions are the recorded cases that the stand-in does not answer as
// recorded, each with the reason.
var probeExceptions = map[string]string{}

package main

// Values of drain.mode.
const (
	drainStop   = "stop"
	drainPlain  = "plain"
	drainNative = "native"
)

// Values of credentials.require, and of the source in the log.
const (
	anyCredentials = "any"
	webIdentity    = "web-identity"
	container      = "container"
	instance       = "instance"
	environment    = "environment"
	profile        = "profile"
)

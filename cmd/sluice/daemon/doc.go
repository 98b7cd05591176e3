// Package daemon builds the parts of Sluice from a Config, runs them until a signal, and ends them.
//
//	command.go      serve; healthcheck.go asks a daemon that runs
//	wire.go         builds the parts; credentials.go has the AWS credentials
//	serve.go        runs the parts; drain.go ends them
//	listen.go       listeners of clients; holder.go finds who has the port
//	admin.go        /metrics and the probes; adminconns.go bounds their connections
//	tls.go          the certificate of clients' TLS
//	watch.go        loads files again that have changed
//	limits.go       CPUs and file descriptors; log.go has the logger
//
// Serve runs until every goroutine of the daemon has ended. The admin address ends last, so that
// a drain can be watched. The lease ends when no backend is open.
package daemon

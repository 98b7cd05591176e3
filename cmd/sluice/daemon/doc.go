// Package daemon builds the parts of Sluice from a Config, runs them until a signal, and ends them.
//
//	command.go      serve; healthcheck.go probes a running daemon
//	wire.go         builds the parts; credentials.go has the AWS credentials
//	serve.go        runs the parts; drain.go ends them
//	listen.go       listeners of clients; holder.go finds the process on a port
//	admin.go        /metrics and the probes; adminconns.go bounds their connections
//	tls.go          the certificate of clients' TLS
//	watch.go        reloads changed files
//	limits.go       CPUs and file descriptors; log.go has the logger
//
// Serve runs until every goroutine of the daemon has ended. The admin address ends last, so that a
// drain can be observed. The lease ends when no backend is open.
package daemon

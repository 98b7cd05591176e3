// Package leasecmd has the command lease, which manages the table of package lease.
//
//	lease.go  init, status, reset and migrate
//	dead.go   reset --dead: finds unchanged records, and asks on the terminal
//
// Nothing is removed from the table without a confirmation or --yes.
package leasecmd

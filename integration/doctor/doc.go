// Package doctor runs sluice doctor as a program against the stand-in for DSQL. It tests the program's findings, and
// its clean-up after an interruption, a lost connection or a refusal.
package doctor

// Package doctor runs the program sluice doctor against dsqlsim, the simulated DSQL cluster. It tests the program's
// findings, and its clean-up after an interruption, a lost connection or a refusal.
package doctor

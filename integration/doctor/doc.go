// Package doctor runs sluice doctor as a program against the stand-in for DSQL: what it finds,
// and what it leaves behind when it is interrupted, cut off or refused.
package doctor

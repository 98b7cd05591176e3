// Package configtest gives tests a configuration from a file, variables and flags.
//
// Only tests import package configtest.
package configtest

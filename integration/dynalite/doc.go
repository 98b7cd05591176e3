// Package dynalite runs a DynamoDB server for tests: the program dynalite, which stores its tables in memory, as a
// child process of the test.
//
// For package lease, dynalite behaves as DynamoDB does, with three exceptions. The answer to a failed condition lacks
// the item, nothing ever expires, and nothing is throttled.
package dynalite

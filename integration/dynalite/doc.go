// Package dynalite runs a DynamoDB for tests: the program dynalite, which keeps
// its tables in memory, as a child of the test's process.
//
// It does what package lease needs as DynamoDB does it, but for this: the answer
// to a failed condition comes without the item, nothing ever expires, and
// nothing is throttled.
package dynalite

// Package block follows the transactions of a session through the statements that its client
// sends, one by one, as PostgreSQL does: through Querys of several statements, pipelines of the
// extended protocol, and both mixed. It says which statements are of one transaction, which modes
// that has, and which statements PostgreSQL refuses there.
//
// Block is a pure value: assignment copies it. Who must know how a session stands in front of a
// statement keeps a copy, or walks over the statements again. Nothing else in Sluice keeps books
// on BEGIN, COMMIT and savepoints.
//
// The test compares it with PostgreSQL for every short program.
package block

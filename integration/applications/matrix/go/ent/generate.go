// Package ent is generated from its schema.
package ent

//go:generate go tool ent generate ./schema

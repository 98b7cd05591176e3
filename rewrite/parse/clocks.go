package parse

import (
	"bytes"
)

// UniqueValueFuncs are the names, in lower case, of functions that return another value at each call.
var UniqueValueFuncs = WordSet(`nextval random random_normal gen_random_uuid gen_random_bytes uuidv4 uuidv7
	uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4`)

// ClockWords are the names, in lower case, of functions and keywords whose value depends on the clock.
var ClockWords = WordSet(`now clock_timestamp statement_timestamp transaction_timestamp timeofday
	current_timestamp current_time current_date localtimestamp localtime age`)

// MayReadAsNow reports whether the server may read a constant or a parameter's value as the time, for example 'now' or
// 'today'. It finds these words at any position, because the constant may be an array or a range of dates.
func MayReadAsNow(b []byte) bool {
	if len(b) > 1 && (b[0]|0x20 == 'e' || b[0]|0x20 == 'u') && (b[1] == '\'' || b[1] == '&') && bytes.IndexByte(b, '\\') >= 0 {
		return true // an escape may hide another word: E'n\x6fw'
	}
	for i := 0; i < len(b); {
		j := i
		for j < len(b) && isLetter(b[j]) {
			j++
		}
		switch j - i {
		case 3, 5, 8, 9:
			if w := b[i:j]; IsWord(w, "now") || IsWord(w, "today") || IsWord(w, "tomorrow") || IsWord(w, "yesterday") {
				return true
			}
		}
		i = max(j, i+1)
	}
	return false
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// TxTimeWords are the functions and keywords for the time whose value stays the same throughout a transaction.
var TxTimeWords = WordSet("now transaction_timestamp current_timestamp current_time current_date localtimestamp localtime age")

// clocklessTypes are types whose constants never depend on the clock. inputSettingsByType has further types.
var clocklessTypes = WordSet("interval regclass regtype regproc regprocedure regnamespace regrole xid tid void record tsvector tsquery")

// TypeNodeReadsClock reports whether the server may read a constant of a type as the current time. typ is a TypeName.
// The result is true for dates, times, and arrays and ranges of them. It is also true for types that PostgreSQL does
// not have.
func TypeNodeReadsClock(typ TreeNode) bool {
	names := typ.Names("names")
	if len(names) == 0 || len(names) > 1 && names[0] != "pg_catalog" {
		return true
	}
	return TypeReadsClock(names[len(names)-1])
}

// TypeReadsClock reports whether the server may read a constant of a type as the current time, for example 'now'. name
// is the type's name in pg_catalog, in lower case.
func TypeReadsClock(name string) bool {
	by, known := inputSettingsByType[name]
	return !clocklessTypes[name] && (!known || by != 0)
}

// InputSettingsOfType returns the settings that affect how PostgreSQL reads a constant of a type. name is the type's
// name in pg_catalog, in lower case. known is false for a type that inputSettingsByType does not have.
func InputSettingsOfType(name string) (by InputSettings, known bool) {
	by, known = inputSettingsByType[name]
	return by, known
}

// ClockTypes are types of times whose names are also the names of functions, as in date(x).
var ClockTypes = WordSet("date time timetz timestamp timestamptz daterange tsrange tstzrange datemultirange tsmultirange tstzmultirange")

// TimeFuncs are PostgreSQL's functions that return a time, a number or a boolean, but never a text.
var TimeFuncs = WordSet(`date_trunc date_bin date_add date_subtract to_timestamp to_date make_date make_time make_timestamp make_timestamptz timezone
	now transaction_timestamp statement_timestamp clock_timestamp extract date_part justify_days justify_hours justify_interval make_interval age isfinite`)

// VolatileWords are functions and keywords whose value may differ each time a statement runs: clocks, random values,
// sequences, transaction numbers.
var VolatileWords = WordSet(`nextval currval lastval setval
	now clock_timestamp statement_timestamp transaction_timestamp timeofday
	current_timestamp current_time localtimestamp localtime
	random random_normal gen_random_uuid gen_random_bytes uuidv4 uuidv7
	uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4
	txid_current txid_current_if_assigned txid_current_snapshot
	pg_current_xact_id pg_current_xact_id_if_assigned pg_current_snapshot pg_current_wal_lsn pg_backend_pid`)

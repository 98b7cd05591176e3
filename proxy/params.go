package proxy

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// defaultParams are what stock clients insist on, until a backend was seen.
// DSQL's own values (recorded from a cluster, 2026-09).
var defaultParams = map[string]string{
	"server_version": "16.15", "server_encoding": "UTF8", "client_encoding": "UTF8",
	"standard_conforming_strings": "on", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres",
	"TimeZone": "UTC", "integer_datetimes": "on", "is_superuser": "off",
	"session_authorization": "admin", "application_name": "", "default_transaction_read_only": "off",
	"in_hot_standby": "off",
}

// reports are the parameters that clients are told of, sorted. Immutable.
type reports struct {
	from map[string]string // the map they were made of
	all  []reportedParam
}

type reportedParam struct{ name, lower, value string }

func newReports(from map[string]string) *reports {
	r := &reports{from: from}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		r.all = append(r.all, reportedParam{name, strings.ToLower(name), from[name]})
	}
	return r
}

// params are the parameters of the backend dialled last, completed.
func (srv *Server) params() *reports {
	seen := srv.backends.Params()
	r := srv.reports.Load()
	if r != nil && reflect.ValueOf(r.from).Pointer() == reflect.ValueOf(seen).Pointer() {
		return r
	}
	params := maps.Clone(defaultParams)
	maps.Copy(params, seen)
	r = newReports(params)
	r.from = seen
	srv.reports.Store(r)
	return r
}

// reported returns how a parameter is spelt in ParameterStatus and what a
// client with that startup has been told; ok is false when it is not reported.
func (srv *Server) reported(startup *settings, name string) (shown, value string, ok bool) {
	for _, p := range srv.params().all {
		if p.lower == name {
			if told, given := startup.shown[name]; given {
				p.value = told
			}
			return p.name, p.value, true
		}
	}
	return "", "", false
}

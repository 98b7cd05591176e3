package opening

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// errRefused refuses a startup with a setting that the cluster does not support.
func errRefused(name string) *wire.Error {
	e := &wire.Error{Fatal: true, Code: "0A000", Message: fmt.Sprintf("setting configuration parameter %q not supported", name)}
	switch name {
	case "role", "session_authorization":
		e.Hint = rewrite.RoleHint
	case "default_transaction_isolation":
		e.Hint = "Transactions are REPEATABLE READ: leave it out, or give that level or a weaker one."
	}
	return e
}

// errNotAtStartup returns the error of a setting that a startup packet can give but SET cannot, or nil.
func errNotAtStartup(name, value string) error {
	switch {
	case strings.Contains(name, ".") && slices.Contains(strings.Split(name, "."), ""):
		return &wire.Error{Fatal: true, Code: "42602", Message: "invalid configuration parameter name \"" + name + "\"",
			Detail: "Custom parameter names must be two or more simple identifiers separated by dots."}
	case (name == "local_preload_libraries" || name == "session_preload_libraries") && value != "":
		return &wire.Error{Fatal: true, Code: "55P02", Message: "parameter \"" + name + "\" cannot be set after connection start"}
	}
	return nil
}

// serverSpeltSettings lists settings that errors spell like the server. Errors with a DETAIL spell all settings so.
var serverSpeltSettings = map[string]bool{"client_encoding": true, "default_tablespace": true, "default_text_search_config": true,
	"default_table_access_method": true, "timezone_abbreviations": true, "lc_messages": true, "lc_monetary": true, "lc_numeric": true, "lc_time": true}

// WithClientSpelling returns a startup's error with the parameter's name as the client spelt it, by the map spelt.
func WithClientSpelling(refusal error, spelt map[string]string) error {
	var told *wire.Error
	if !errors.As(refusal, &told) {
		return refusal
	}
	e := *told
	for lower, name := range spelt {
		if (serverSpeltSettings[lower] || e.Detail != "") && strings.HasPrefix(e.Message, "invalid value for parameter") {
			continue
		}
		for _, in := range []string{"parameter \"", "parameter name \""} {
			e.Message = strings.Replace(e.Message, in+lower+"\"", in+name+"\"", 1)
		}
	}
	return &e
}

// RefusalLabel returns the metric's name for a refused startup. err is from package startup, or refused a session.
// Too many clients and too few backends share SQLSTATE 53300, so the prefix of the message distinguishes them.
func RefusalLabel(err error) string {
	var clientErr *wire.Error
	var network net.Error
	switch {
	case errors.As(err, &clientErr):
		switch {
		case clientErr == startup.ErrTimeout:
			return metrics.RefusedTimeout
		case clientErr == startup.ErrTooManyFailures:
			return metrics.RefusedGuesses
		case clientErr == startup.ErrPlainAfterTLS:
			return metrics.RefusedPlaintext
		case clientErr == startup.ErrTLSRequired || clientErr == startup.ErrNoALPN:
			return metrics.RefusedTLS
		case clientErr.Code == "57P01":
			return metrics.RefusedDraining
		case clientErr.Code == "53300" && strings.HasPrefix(clientErr.Message, "sorry"):
			return metrics.RefusedClients
		case clientErr.Code == "53200":
			return metrics.RefusedMemory
		case clientErr.Code == "08P01":
			return metrics.RefusedProtocol
		case clientErr.Code == "28P01" || clientErr.Code == "28000":
			return metrics.RefusedAuth
		case clientErr.Code == "0A000", clientErr.Code == "22023", clientErr.Code == "42501", clientErr.Code == "42704", clientErr.Code == "55P02", clientErr.Code == "42602":
			return metrics.RefusedParameter
		case clientErr.Code == "3D000":
			return metrics.RefusedDatabase
		}
		return metrics.RefusedBackend
	case errors.Is(err, io.EOF), errors.As(err, &network):
		return metrics.RefusedGone
	}
	return metrics.RefusedProtocol
}

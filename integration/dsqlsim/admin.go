package dsqlsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxPlanBytes bounds the body of a POST to /faults, in bytes.
const maxPlanBytes = 1 << 20

// AdminHandler returns the handler of dsqlsim's HTTP interface:
//
//	GET    /livez                   200 while the server runs
//	GET    /readyz                  200 while the server serves and PostgreSQL answers
//	GET    /metrics                 metrics in Prometheus' text form
//	GET    /ledger?after=N          the events after event N, oldest first;
//	                                with session=M those of that connection only
//	GET    /faults                  the faults that have not happened yet
//	POST   /faults                  adds a JSON list of faults (see FaultPlanHelp), all or none
//	DELETE /faults                  removes all planned faults
//	DELETE /sessions/{id}           cuts a connection, as a lost network would
func (s *Server) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if s.ctx.Err() != nil {
			http.Error(w, "closed", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /ledger", s.serveLedger)
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.PendingFaults()) })
	mux.HandleFunc("POST /faults", s.servePlan)
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /sessions/{id}", s.serveCutSession)
	return mux
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := s.checkReady(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) serveLedger(w http.ResponseWriter, r *http.Request) {
	var problems []error
	number := func(name, what string) uint64 {
		given := r.FormValue(name)
		if given == "" {
			return 0
		}
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %q: want the number of %s", name, shortenText(given), what))
		}
		return n
	}
	after, session := number("after", "an event"), number("session", "a connection")
	if err := errors.Join(problems...); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	events := s.EventsAfter(after)
	if session > 0 {
		events = slices.DeleteFunc(events, func(e LedgerEvent) bool { return e.Session != session })
	}
	writeJSON(w, events)
}

func (s *Server) servePlan(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPlanBytes))
	if err != nil {
		http.Error(w, "the plan: "+err.Error(), http.StatusBadRequest)
		return
	}
	switch err := s.AddFaultsJSON(body); {
	case errors.Is(err, errTooManyFaults):
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) serveCutSession(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || !s.CloseSession(id) {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader may be gone
}

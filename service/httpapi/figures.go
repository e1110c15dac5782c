package httpapi

import (
	"maps"
	"net/http"
	"strconv"
	"sync"

	"millrace/internal/metrics"
)

// figures count the answers.
type figures struct {
	mu       sync.Mutex
	requests map[answered]int64 // guarded by mu
}

// answered is the key of a counter; the verb is "" for requests without one.
type answered struct {
	verb   string
	status int
}

func (f *figures) count(is answered) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests == nil {
		f.requests = map[answered]int64{}
	}
	f.requests[is]++
}

// Collect implements [metrics.Source].
func (s *Server) Collect(emit metrics.Emit) {
	s.figures.mu.Lock()
	requests := maps.Clone(s.figures.requests)
	s.figures.mu.Unlock()
	for is, n := range requests {
		emit(metrics.HTTPRequests, float64(n), nil, is.verb, strconv.Itoa(is.status))
	}
	now, dropped := s.Followers()
	emit(metrics.HTTPFollowers, float64(now), nil)
	emit(metrics.HTTPDropped, float64(dropped), nil)
}

// statusWriter is a response that remembers its status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// counted counts the answers of a handler, by the verb of their route.
func (s *Server) counted(mux *http.ServeMux, all []operation, next http.Handler) http.Handler {
	verbs := map[string]string{}
	for i := range all {
		verbs[all[i].method+" "+prefix+all[i].path] = string(all[i].verb)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		to := &statusWriter{w, http.StatusOK}
		defer func() { s.figures.count(answered{verbs[pattern], to.status}) }()
		next.ServeHTTP(to, r)
	})
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"millrace"
)

// web answers POST /orders/NUMBER with the id of the mail's task, at once, and GET /mail/ID with
// what the task has returned.
func web(app *millrace.App) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{number}", func(w http.ResponseWriter, r *http.Request) {
		run, err := confirm(r.Context(), app, r.PathValue("number"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer(w, http.StatusAccepted, run.ID)
	})
	mux.HandleFunc("GET /mail/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := mail.Run(app, millrace.ID(r.PathValue("id"))).Result(r.Context())
		switch {
		case errors.Is(err, millrace.ErrUnknown):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, millrace.ErrFailed):
			http.Error(w, err.Error(), http.StatusBadGateway)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			answer(w, http.StatusOK, id)
		}
	})
	return mux
}

func answer(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error is the other side's, which has gone
}

// serve runs the web application until ctx ends.
func serve(ctx context.Context, app *millrace.App, address string) error {
	server := &http.Server{Addr: address, Handler: web(app)}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

package httpapi

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"millrace/service/answers"
	"millrace/task/schedule"
	"millrace/task/value"
)

// A webhook makes a task of a job for a sender that knows the job's secret, a file of [Config.Hooks] with
// the job's name: POST /hooks/JOB. The secret never leaves the server.

// leastSecret is how many bytes the secret of a webhook has at least. A shorter one admits nobody.
const leastSecret = 16

// hookTolerance is how far the time in a signature may be from the server's.
const hookTolerance = 5 * time.Minute

// hook answers a webhook with the receipt of its task.
func (s *Server) hook(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("job")
	secret, err := s.hookSecret(name)
	if err != nil {
		return err
	}
	if secret == nil { // whoever knows no secret does not learn which jobs there are
		return s.unknown(r, answers.ErrWho)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if !signed(secret, r.Header, body, s.now()) {
		return s.unknown(r, answers.ErrWho)
	}
	known(r)
	caller := "hook:" + name
	if err := s.rates.admit(r.Context(), caller); err != nil {
		return err
	}
	receipt, err := s.Desk.Hook(r.Context(), caller, name, deliveryOf(r.Header), body)
	if err != nil {
		return err
	}
	if receipt == nil { // it is for another job, or for none
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return s.sendJSON(w, r, receipt)
}

// ping answers a monitored program that says how it is in the way of one that knows no JSON: by the path, where a
// word may be an exit code, and with its last lines as the body.
func (s *Server) ping(w http.ResponseWriter, r *http.Request, c Caller, e *answers.Endpoint) error {
	if !c.Role.May(e.Verb) {
		return denied(c.Role, e.Verb)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil && !errors.As(err, new(*http.MaxBytesError)) { // what it has printed must not keep it from speaking
		return unread(err)
	}
	is := struct {
		Name string `json:"name"`
		schedule.Ping
	}{r.PathValue("name"), schedule.Ping{Word: r.PathValue("word"), Lines: string(body), ID: deliveryOf(r.Header)}}
	if code, err := strconv.Atoi(is.Word); err == nil {
		is.Word, is.Exit = "", &code
	}
	if err := is.Complete(time.Time{}); err != nil { // a request has fewer bytes
		return wrong("%v", err)
	}
	text, err := value.JSON(is)
	if err != nil {
		return err
	}
	answer, err := s.Desk.Answer(r.Context(), c.Name, e, text)
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, answer)
}

// hookSecret reads the secret of a job; nil if it has none that admits anybody.
func (s *Server) hookSecret(job string) ([]byte, error) {
	if value.ValidName("job", job) != nil {
		return nil, nil
	}
	secret, err := os.ReadFile(filepath.Join(s.config.Hooks, job))
	switch secret = bytes.TrimSpace(secret); {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(secret) < leastSecret:
		return nil, nil
	}
	return secret, err
}

// signed tells whether the sender of a request knows a secret: a signature of the body as GitHub and
// Standard Webhooks make it, or the secret itself as a bearer's or as GitLab sends it.
func signed(secret []byte, h http.Header, body []byte, now time.Time) bool {
	mac := func(key []byte, parts ...[]byte) []byte {
		m := hmac.New(sha256.New, key)
		for _, part := range parts {
			m.Write(part)
		}
		return m.Sum(nil)
	}
	if text, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256="); ok {
		is, err := hex.DecodeString(text)
		return err == nil && hmac.Equal(is, mac(secret, body))
	}
	if all := h.Get("Webhook-Signature"); all != "" {
		seconds, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
		if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > hookTolerance {
			return false
		}
		key := secret
		if text, ok := strings.CutPrefix(string(secret), "whsec_"); ok {
			if key, err = base64.StdEncoding.DecodeString(text); err != nil {
				return false
			}
		}
		want := mac(key, []byte(h.Get("Webhook-Id")+"."+h.Get("Webhook-Timestamp")+"."), body)
		for text := range strings.FieldsSeq(all) {
			if text, ok := strings.CutPrefix(text, "v1,"); ok {
				if is, err := base64.StdEncoding.DecodeString(text); err == nil && hmac.Equal(is, want) {
					return true
				}
			}
		}
		return false
	}
	if kind, text, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(kind, "Bearer") {
		return same(text, string(secret))
	}
	return same(h.Get("X-Gitlab-Token"), string(secret))
}

// deliveryOf is what a sender repeats when it sends the same again; "" if it says nothing of the kind.
func deliveryOf(h http.Header) string {
	for _, name := range []string{"Webhook-Id", "X-Github-Delivery", "X-Gitlab-Event-Uuid", "Idempotency-Key"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

package httpapi

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"millrace/service/answers"
	"millrace/task/value"
)

// worthwhile is the size in bytes from which compressing an answer pays.
const worthwhile = 1 << 10

// varies lists the headers on which answers to the same address depend.
const varies = "Accept, Accept-Encoding, Authorization, Cookie"

var zippers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// sendJSON answers a request. The ETag of something with revisions begins with the revision, so
// that If-Match says which one was seen.
func (s *Server) sendJSON(w http.ResponseWriter, r *http.Request, answer any) error {
	body, err := answers.Encode(answer)
	if err != nil {
		return err
	}
	tag := tagOf(body)
	if is, ok := answer.(revised); ok {
		tag = fmt.Sprintf(`W/"%d-%s`, is.SeenRevision(), strings.TrimPrefix(tag, `W/"`))
	}
	s.send(w, r, "application/json", tag, body)
	return nil
}

// revised is an answer about a revision of something that can be changed.
type revised interface{ SeenRevision() uint64 }

// Send answers a request with a body, or says that the caller has it already.
func (s *Server) Send(w http.ResponseWriter, r *http.Request, kind string, body []byte) {
	s.send(w, r, kind, tagOf(body), body)
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, kind, tag string, body []byte) {
	h := w.Header()
	h.Set("Vary", varies)
	if reads(r) {
		h.Set("Cache-Control", "private, no-cache")
		h.Set("ETag", tag)
		if has(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", kind)
	if len(body) < worthwhile || !Accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		s.wrote(w.Write(body))
		return
	}
	h.Set("Content-Encoding", "gzip")
	z, _ := zippers.Get().(*gzip.Writer) // the pool makes nothing else
	defer zippers.Put(z)
	z.Reset(w)
	s.wrote(z.Write(body))
	s.wrote(0, z.Close())
}

// wrote logs an answer whose receiver has gone.
func (s *Server) wrote(_ int, err error) {
	if err != nil {
		s.Log.Debug("an answer could not be sent", "error", err)
	}
}

// tagOf returns the ETag of an answer. It is weak: a compressed answer has the same.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + hex.EncodeToString(sum[:12]) + `"`
}

// has tells whether one of the caller's tags is this one.
func has(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimSpace(part); part == "*" || strings.TrimPrefix(part, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// Refuse answers a request with a problem, for programs.
func (s *Server) Refuse(w http.ResponseWriter, err error) {
	p := answers.ProblemOf(err)
	body, bad := value.JSON(p)
	if bad != nil { // strings can always be encoded
		body = nil
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	Later(h, p.Status, err)
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="millrace"`)
	case http.StatusInternalServerError:
		s.Log.Warn("a request over HTTP has failed", "error", err)
	}
	w.WriteHeader(p.Status)
	s.wrote(w.Write(body))
}

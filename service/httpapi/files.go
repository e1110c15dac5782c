package httpapi

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"millrace/events/jet/rights"
	"millrace/service/answers"
	"millrace/service/client"
)

// carrier is a route for contents of files, which no request of the service carries. Its verb says
// which roles may use it.
type carrier struct {
	route
	about string
	// takes and gives are the media types of request and response.
	takes, gives string
	answer       reflect.Type // of a JSON answer; nil for contents
	refused      []string     // kinds of problems, beside those of all
	serve        func(s *Server, w http.ResponseWriter, r *http.Request, c Caller) error
}

// carriers are all of them.
var carriers = []carrier{
	{route: route{rights.FilesGet, http.MethodGet, "/files/{version}/content"}, gives: "application/octet-stream", serve: (*Server).pull,
		about: "a file of a version, or without a path all of them as a tar archive", refused: []string{"bad-request", "no-files", "no-file", "busy", "cut-off", "unknown-outcome", "failed"}},
	{route: route{rights.FilesRemove, http.MethodPut, "/files/{name}"}, takes: tarType, gives: "application/json", answer: reflect.TypeFor[client.FilesPushed](), serve: (*Server).push,
		about:   "store a tar archive, compressed by gzip or not, as a version of a bundle, to which the name points from now on",
		refused: []string{"bad-request", "too-large", "slow", "no-archive", "changed", "no-room", "busy", "cut-off", "unknown-outcome", "failed"}},
}

const tarType = "application/x-tar"

// describe returns the carrier's entry in the document.
func (k *carrier) describe(doc *huma.OpenAPI) *huma.Operation {
	op := &huma.Operation{Method: k.method, Path: prefix + k.path, Summary: k.about, Tags: []string{"files"}, OperationID: "files.content"}
	contents := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	name := &huma.Schema{Type: huma.TypeString}
	given := &huma.MediaType{Schema: contents}
	response := &huma.Response{Description: "what was asked for", Content: map[string]*huma.MediaType{k.gives: given}}
	if k.takes == "" {
		op.Parameters = []*huma.Param{
			{Name: "version", In: "path", Required: true, Schema: name, Description: "NAME, NAME@DIGEST or DIGEST"},
			{Name: "path", In: "query", Schema: name, Description: "the file's, relative to the bundle. Default: all files, as an archive."}, ifNoneMatch,
		}
		response.Content[tarType] = given
		response.Headers = map[string]*huma.Param{"ETag": etag, "Content-Disposition": text("that browsers store the contents and do not show them")}
	} else {
		op.OperationID = "files.push"
		op.Parameters = []*huma.Param{{Name: "name", In: "path", Required: true, Schema: name, Description: "the bundle's"}}
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{k.takes: {Schema: contents}, "application/gzip": {Schema: contents}}}
		given.Schema = doc.Components.Schemas.Schema(k.answer, true, "")
	}
	op.Responses = responses(doc, k.refusals(), "200", response, k.takes == "")
	return op
}

// pull sends contents, as fast as the caller takes them. The caller counts as a follower.
func (s *Server) pull(w http.ResponseWriter, r *http.Request, c Caller) error {
	query := r.URL.Query()
	for name, all := range query {
		if name != "path" || len(all) > 1 {
			return wrong("there is no field %q to ask for here, or it is there %d times", name, len(all))
		}
	}
	is, err := s.Desk.Contents(r.Context(), c.Name, r.PathValue("version"), query.Get("path"))
	if err != nil {
		return err
	}
	h := w.Header()
	tag := tagOf([]byte(string(is.Digest) + "\n" + is.Path))
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	if has(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	leave, ok := s.Desk.TakeFollower(c.Name)
	if !ok {
		return answers.ErrTooMany
	}
	defer leave()
	h.Set("Content-Type", tarType)
	h.Set("Content-Disposition", "attachment")
	if is.Path != "" {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", strconv.FormatInt(is.Size, 10))
	}
	to := &paced{flow: http.NewResponseController(w), within: time.Duration(s.takesWithin.Load()), to: w}
	if err := is.Write(r.Context(), to); err != nil {
		s.Log.Debug("contents could not be sent", "error", err)
		Break() // the caller must notice that this is not all
	}
	return nil
}

// push stores an uploaded archive.
func (s *Server) push(w http.ResponseWriter, r *http.Request, c Caller) error {
	if r.URL.RawQuery != "" {
		return wrong("nothing can be asked for here")
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	zipped := kind == "application/gzip" || r.Header.Get("Content-Encoding") == "gzip"
	if err != nil || kind != tarType && kind != "application/gzip" {
		return answers.ErrArchiveMedia
	}
	leave, ok := s.Desk.TakeFollower(c.Name)
	if !ok {
		return answers.ErrTooMany
	}
	defer leave()
	flow := http.NewResponseController(w)
	archive := io.Reader(&paced{flow: flow, within: s.bodyTimeout, from: r.Body})
	if zipped {
		if archive, err = gzip.NewReader(archive); err != nil {
			return wrong("the archive is not compressed by gzip: %w", err)
		}
	}
	_ = flow.SetWriteDeadline(time.Time{}) // it cannot fail for a connection
	done, err := s.Desk.Push(r.Context(), c.Name, r.PathValue("name"), archive)
	_ = flow.SetWriteDeadline(time.Now().Add(answerWithin))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return answers.ErrTooLarge
	case err != nil:
		return err
	}
	return s.sendJSON(w, r, done)
}

// paced reads or writes as long as the other side makes progress.
type paced struct {
	flow   *http.ResponseController
	within time.Duration
	from   io.Reader
	to     io.Writer
}

func (p *paced) Read(b []byte) (int, error) {
	if err := p.flow.SetReadDeadline(time.Now().Add(p.within)); err != nil {
		return 0, err
	}
	return p.from.Read(b)
}

func (p *paced) Write(b []byte) (int, error) {
	if err := p.flow.SetWriteDeadline(time.Now().Add(p.within)); err != nil {
		return 0, err
	}
	return p.to.Write(b)
}

// largestBody returns how many bytes the body of a request may have.
func largestBody(pattern string) int64 {
	for i := range carriers {
		if k := &carriers[i]; k.takes != "" && pattern == k.method+" "+prefix+k.path {
			return answers.LargestArchive
		}
	}
	return answers.LargestRequest
}

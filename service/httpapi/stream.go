package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// Bounds for followers.
const (
	// takesWithin is how long a follower may take to receive what it is sent, before it is dropped.
	takesWithin = 10 * time.Second
	// stillThere is how often a follower is sent something even though nothing has happened.
	stillThere = 10 * time.Second
	// atMost is the shortest time between two versions of an answer.
	atMost = 500 * time.Millisecond
	// oldAtOnce is how many records of the log are read at once for a follower that is further
	// back, and oldReaders how many such followers are served concurrently.
	oldAtOnce, oldReaders = 256, 16
)

// errSlow drops a follower that is too slow.
var errSlow = errors.New("who follows has fallen behind")

// frameOf returns a server-sent event. data is JSON whose line ends are only in places where a space
// could be.
func frameOf(id uint64, event string, data []byte) []byte {
	var to []byte
	if id > 0 {
		to = append(to, "id: "...)
		to = strconv.AppendUint(to, id, 10)
		to = append(to, '\n')
	}
	to = append(append(append(to, "event: "...), event...), '\n')
	for line := range bytes.FieldsFuncSeq(data, func(r rune) bool { return r == '\n' || r == '\r' }) {
		to = append(append(append(to, "data: "...), line...), '\n')
	}
	return append(to, '\n')
}

// stream is a response to a follower.
type stream struct {
	w      http.ResponseWriter
	flow   *http.ResponseController
	within time.Duration
	zip    *gzip.Writer // nil without compression
	begun  bool
	sent   time.Time // when something was last sent
}

// streamTo returns a response to a follower, compressed if the follower wants that. The compressor
// keeps no history: that would be most of a megabyte per follower.
func (s *Server) streamTo(w http.ResponseWriter, r *http.Request) *stream {
	to := &stream{w: w, flow: http.NewResponseController(w), within: time.Duration(s.takesWithin.Load())}
	if Accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		to.zip, _ = gzip.NewWriterLevel(w, gzip.StatelessCompression) // the level is valid
	}
	return to
}

// send sends something, and waits until it was taken. Each call flushes what it has compressed.
func (s *stream) send(parts ...[]byte) error {
	if !s.begun {
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", varies)
		h.Set("X-Accel-Buffering", "no") // a proxy that buffers would hold it back for ever
		if s.zip != nil {
			h.Set("Content-Encoding", "gzip")
		}
		s.begun = true
	}
	begun := time.Now()
	err := s.flow.SetWriteDeadline(begun.Add(s.within))
	switch {
	case err != nil:
	case s.zip != nil:
		_, err = s.zip.Write(bytes.Join(parts, nil))
	default:
		for i := 0; i < len(parts) && err == nil; i++ {
			_, err = s.w.Write(parts[i])
		}
	}
	if err == nil {
		err = s.flow.Flush()
	}
	s.sent = time.Now()
	// HTTP/2 reports only that it was closed.
	if errors.Is(err, os.ErrDeadlineExceeded) || err != nil && s.sent.Sub(begun) >= s.within {
		return errSlow
	}
	return err
}

// end ends the stream.
func (s *stream) end() {
	if s.begun && s.zip != nil {
		_ = s.zip.Close() // the follower may be gone
	}
}

// quiet is sent when nothing has happened.
var quiet = []byte(": still there\n\n")

// aliveEvent is quiet for pages: scripts in browsers do not hear of comments.
var aliveEvent = frameOf(0, "alive", []byte("{}"))

// follow answers a GET whose sender wants to follow the answer.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, c Caller, o *operation, body []byte) error {
	return s.serveFollower(w, r, c, string(o.verb), func(ctx context.Context, to *stream, from uint64) error {
		return s.stream(ctx, to, c, o, body, from)
	})
}

// Part is a part of an answer. Followers get the parts that have changed.
type Part struct {
	Name string
	Text []byte // JSON
	// Moving tells that it changes even if the log does not.
	Moving bool
}

func moving(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool { return p.Moving })
}

// FollowParts sends a follower the parts of an answer whenever they have changed. Followers with
// the same key share the result of make.
func (s *Server) FollowParts(w http.ResponseWriter, r *http.Request, c Caller, key string, make func(context.Context) ([]Part, error)) error {
	return s.serveFollower(w, r, c, key, func(ctx context.Context, to *stream, from uint64) error {
		return s.followAnswer(ctx, to, key, from, aliveEvent, make)
	})
}

// FollowOutput sends a follower the lines that a task prints after a sequence of the stream of
// output, batch by batch, in the form that show gives them.
func (s *Server) FollowOutput(w http.ResponseWriter, r *http.Request, c Caller, id task.ID, after uint64, show func(*output.Lines) ([]byte, error)) error {
	return s.serveFollower(w, r, c, string(rights.TaskOutput), func(ctx context.Context, to *stream, from uint64) error {
		body, err := value.JSON(map[string]any{"id": id, "after": max(from, after)})
		if err != nil {
			return err
		}
		return s.followTask(ctx, to, rights.TaskOutput, body, 0, func(of any) ([]byte, error) {
			lines, ok := of.(output.Lines)
			if !ok {
				return nil, errNoLines
			}
			return show(&lines)
		})
	})
}

// errNoLines cannot happen: the stream of output holds lines.
var errNoLines = errors.New("what was printed is no lines")

// serveFollower calls run to send a follower what comes after the last event that it has. The error says why
// nothing was sent.
func (s *Server) serveFollower(w http.ResponseWriter, r *http.Request, c Caller, what string, run func(ctx context.Context, to *stream, from uint64) error) error {
	leave, ok := s.Desk.TakeFollower(c.Name)
	if !ok {
		return answers.ErrTooMany
	}
	defer leave()
	s.followers.Add(1)
	defer s.followers.Add(-1)
	from := uint64(0)
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		var err error
		if from, err = strconv.ParseUint(text, 10, 64); err != nil {
			return wrong("Last-Event-ID is %q, want the id of an event", text)
		}
	}
	to := s.streamTo(w, r)
	defer to.end()
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	if c.life != nil {
		defer context.AfterFunc(c.life, func() { end(answers.ErrWho) })()
	}
	err := run(ctx, to, from)
	if errors.Is(context.Cause(ctx), answers.ErrWho) {
		err = answers.ErrWho
	}
	switch {
	case errors.Is(err, errSlow):
		s.dropped.Add(1)
		s.Log.Warn("who follows over HTTP takes too long and is dropped; he may come back and go on where he was", "caller", c.Name, "follows", what)
	case err == nil:
		_ = to.send(frameOf(0, "end", []byte("{}"))) // the follower may be gone
	case err != nil && !to.begun:
		// The follower may be gone, or the service ends: an empty answer would mean that there is
		// nothing to follow.
		if r.Context().Err() != nil {
			err = context.DeadlineExceeded
		}
		return err
	case err != nil && r.Context().Err() == nil:
		if text, bad := value.JSON(answers.ProblemOf(err)); bad == nil {
			_ = to.send(frameOf(0, "problem", text)) // the follower may be gone
		}
	}
	return nil
}

func (s *Server) stream(ctx context.Context, to *stream, c Caller, o *operation, body []byte, from uint64) error {
	switch o.verb {
	case rights.EventList:
		return s.followLog(ctx, to, body, from)
	case rights.TaskOutput, rights.TaskRecords:
		return s.followTask(ctx, to, o.verb, body, from, func(of any) ([]byte, error) { return value.JSON(of) })
	}
	return s.followAnswer(ctx, to, string(o.verb)+string(body), from, quiet, func(ctx context.Context) ([]Part, error) {
		answer, err := s.Desk.Answer(ctx, c.Name, &o.endpoint, body)
		if err != nil {
			return nil, err
		}
		text, err := answers.Encode(answer)
		return []Part{{Name: "answer", Text: text}}, err
	})
}

// followLog sends the log after a sequence: older records are read for this follower alone, the
// rest is what all followers get.
func (s *Server) followLog(ctx context.Context, to *stream, body []byte, from uint64) error {
	leave := s.feed.follow()
	defer leave()
	asked, filter, err := answers.Chosen(body)
	if err != nil {
		return err
	}
	end, err := s.Desk.Last(ctx)
	switch {
	case err != nil:
		return err
	case from > end || asked > end+1:
		return wrong("the log ends at %d", end)
	case from == 0 && asked > 0:
		from = asked - 1
	case from == 0:
		from = end
	}
	chooses := s.Desk.Chooser(&filter)
	if err := to.send(quiet); err != nil {
		return err
	}
	for {
		frames, has, floor, changed := s.feed.after(from)
		if has {
			if from, err = sendAll(to, frames, &filter, from); err != nil {
				return err
			}
		} else {
			n, err := s.sendOld(ctx, to, chooses, &from, floor)
			if err != nil {
				return err
			}
			if n > 0 || floor > 0 {
				continue
			}
		}
		if err := s.await(ctx, to, changed, from); err != nil {
			return err
		}
	}
}

// together is how many frames are sent before checking whether they were taken.
const together = 64

// sendAll sends the frames that a filter chooses, and returns how far they went.
func sendAll(to *stream, frames []frameAt, filter *view.FactFilter, last uint64) (uint64, error) {
	for some := range slices.Chunk(frames, together) {
		parts := make([][]byte, 0, len(some))
		for i := range some {
			if filter.Wants(&some[i].traits) {
				parts = append(parts, some[i].text)
			}
		}
		if len(parts) > 0 {
			if err := to.send(parts...); err != nil {
				return last, err
			}
		}
		last = some[len(some)-1].seq
	}
	return last, nil
}

// sendOld sends the log after a sequence, up to where the feed begins, and returns how much that
// was.
func (s *Server) sendOld(ctx context.Context, to *stream, chooses func(context.Context, *events.Record) (bool, error), from *uint64, floor uint64) (int, error) {
	select { // what was read is bounded, however slowly it is taken
	case s.old <- struct{}{}:
		defer func() { <-s.old }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	records, err := s.Desk.Page(ctx, *from+1, oldAtOnce)
	if err != nil {
		return 0, err
	}
	if len(records) == 0 {
		*from = max(*from, floor) // there is nothing between the two
		return 0, nil
	}
	var frames []frameAt
	for i := range records {
		wanted, err := chooses(ctx, &records[i])
		if err != nil {
			return 0, err
		}
		if wanted {
			frames = append(frames, frameAt{seq: records[i].Seq, text: factFrame(&records[i])})
		}
	}
	if *from, err = sendAll(to, frames, &view.FactFilter{}, *from); err != nil {
		return 0, err
	}
	*from = records[len(records)-1].Seq
	return len(records), s.stillThere(to, *from)
}

// stillThere tells an idle follower that the server is there, and how far it has come: the
// follower's filter may choose little.
func (s *Server) stillThere(to *stream, from uint64) error {
	if time.Since(to.sent) < s.alive {
		return nil
	}
	return to.send([]byte("id: "+strconv.FormatUint(from, 10)+"\n"), quiet)
}

// await waits for more. Meanwhile it sends the follower something now and then, to detect whether
// it is still there.
func (s *Server) await(ctx context.Context, to *stream, changed <-chan struct{}, from uint64) error {
	still := time.NewTimer(s.alive - time.Since(to.sent))
	defer still.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-still.C:
	}
	return s.stillThere(to, from)
}

// followTask sends what a task prints or produces.
func (s *Server) followTask(ctx context.Context, to *stream, verb rights.Verb, body []byte, from uint64, show func(any) ([]byte, error)) error {
	if from > 0 {
		var asked map[string]json.RawMessage
		if err := json.Unmarshal(body, &asked); err != nil {
			return err
		}
		asked["after"] = strconv.AppendUint(nil, from, 10)
		var err error
		if body, err = value.JSON(asked); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	alive := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(s.alive)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-alive:
				return
			case <-ticker.C:
				mu.Lock()
				err := to.send(quiet)
				mu.Unlock()
				if err != nil {
					stop(err)
					return
				}
			}
		}
	})
	// Confirms the request, though nothing may be printed for long.
	err := s.Desk.Follow(ctx, verb, body, func() error {
		mu.Lock()
		defer mu.Unlock()
		return to.send(quiet)
	}, func(seq uint64, of any) error {
		text, err := show(of)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return to.send(frameOf(seq, "batch", text))
	})
	close(alive)
	watching.Wait()
	if errors.Is(context.Cause(ctx), errSlow) {
		return errSlow
	}
	return err
}

// followAnswer sends the parts of an answer whenever they have changed. Followers of the same
// answer share it. alive is what one hears to whom nothing else has been sent for long.
func (s *Server) followAnswer(ctx context.Context, to *stream, key string, from uint64, alive []byte, make func(context.Context) ([]Part, error)) error {
	shared, leave := s.share(key)
	defer leave()
	sent := map[string][sha256.Size]byte{}
	for first := true; ; first = false {
		seq, parts, err := shared.answer(ctx, s.Desk, make)
		if err != nil {
			return err
		}
		known := first && from > 0 && from == seq // the follower has all of this
		var frames [][]byte
		for i := range parts {
			sum := sha256.Sum256(parts[i].Text)
			if sent[parts[i].Name] == sum {
				continue
			}
			if sent[parts[i].Name] = sum; !known {
				frames = append(frames, frameOf(0, parts[i].Name, parts[i].Text))
			}
		}
		switch n := len(frames); {
		case n > 0: // a follower that has the last part has all
			frames[n-1] = append(strconv.AppendUint([]byte("id: "), seq, 10), append([]byte("\n"), frames[n-1]...)...)
			err = to.send(frames...)
		case known, time.Since(to.sent) >= s.alive: // confirm the request, or that the server is there
			err = to.send(alive)
		}
		if err != nil {
			return err
		}
		if err := s.pause(ctx, to, seq, alive, moving(parts)); err != nil {
			return err
		}
	}
}

// pause waits a moment, and then until answers reach further than a sequence, unless they change by
// themselves.
func (s *Server) pause(ctx context.Context, to *stream, seq uint64, alive []byte, moves bool) error {
	rest := time.NewTimer(atMost)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-rest.C:
	}
	for !moves {
		waiting, cancel := context.WithTimeout(ctx, s.alive)
		err := s.Desk.News(waiting, seq)
		cancel()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		if err := to.send(alive); err != nil {
			return err
		}
	}
	return nil
}

// sharedAnswer is an answer with several followers.
type sharedAnswer struct {
	users int // guarded by the server's mu

	mu    sync.Mutex
	seq   uint64 // guarded by mu
	parts []Part // guarded by mu
}

// share returns the shared answer of a key, until leave is called.
func (s *Server) share(key string) (is *sharedAnswer, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared[key] == nil {
		s.shared[key] = &sharedAnswer{}
	}
	is = s.shared[key]
	is.users++
	return is, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if is.users--; is.users == 0 {
			delete(s.shared, key)
		}
	}
}

// answer returns the current result of make, and the sequence that it reflects at least.
func (a *sharedAnswer) answer(ctx context.Context, desk *answers.Desk, make func(context.Context) ([]Part, error)) (uint64, []Part, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seq := desk.Reached()
	if a.parts != nil && a.seq == seq && !moving(a.parts) {
		return seq, a.parts, nil
	}
	parts, err := make(ctx)
	if err == nil {
		a.seq, a.parts = seq, parts
	}
	return seq, parts, err
}

// Break ends an answer whose beginning has been sent already, and its connection: the caller must not take
// what came for the whole.
func Break() { panic(http.ErrAbortHandler) }

// Long returns w for an answer in parts: the caller has as long for each part as others have for a
// whole answer.
func Long(w http.ResponseWriter) io.Writer {
	return long{w, http.NewResponseController(w)}
}

type long struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (l long) Write(b []byte) (int, error) {
	// Where it cannot be set there is none.
	_ = l.control.SetWriteDeadline(time.Now().Add(answerWithin))
	return l.ResponseWriter.Write(b)
}

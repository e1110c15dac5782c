package httpapi

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
)

// A follower's request is confirmed at once, even if nothing has come.
func TestHeardAtOnce(t *testing.T) {
	s := open(t, nil)
	var r client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}}}`, &r)
	for _, what := range []string{"tasks/" + string(r.ID) + "/output", "tasks/" + string(r.ID) + "/records", "events", "tasks"} {
		begun := time.Now()
		s.listen("/api/v1/" + what).leave()
		if took := time.Since(begun); took >= stillThere {
			t.Errorf("%s: after %v", what, took)
		}
	}
}

// heard is a server-sent event.
type heard struct {
	id    uint64
	event string
	data  string
}

// listener follows something.
type listener struct {
	s      *site
	body   *bufio.Reader
	cancel context.CancelFunc
	close  func() error
}

// listen begins to follow.
func (s *site) listen(path string, header ...string) *listener {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	t := http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: s.tls, ForceAttemptHTTP2: true}
	got, err := t.RoundTrip(r)
	if err != nil {
		s.Fatalf("%s: %v", path, err)
	}
	l := &listener{s, bufio.NewReader(got.Body), cancel, got.Body.Close}
	s.Cleanup(l.leave)
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" {
		s.Fatalf("%s is answered with %s, %v", path, got.Status, got.Header)
	}
	return l
}

func (l *listener) leave() {
	l.cancel()
	_ = l.close() // it may be over
}

// next is the next event; false if there are no more.
func (l *listener) next() (h heard, ok bool) {
	for {
		line, err := l.body.ReadString('\n')
		if err != nil {
			return h, false
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			h.id, _ = strconv.ParseUint(value, 10, 64) // 0 is none
		case "event":
			h.event = value
		case "data":
			h.data += value
		case "":
			if h.event != "" {
				return h, true
			}
		}
	}
}

// sequences are the ids of so many events.
func (l *listener) sequences(n int) (all []uint64) {
	for range n {
		h, ok := l.next()
		if !ok {
			break
		}
		all = append(all, h.id)
	}
	return all
}

// submitted submits n tasks, and returns the sequences of their facts in the log.
func (s *site) submitted(n int) (all []uint64) {
	s.Helper()
	before, err := s.store.Last(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	err = client.New(s.store, "test").SubmitMany(s.Context(), birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"date"}}}}, n, nil)
	if err != nil {
		s.Fatal(err)
	}
	for len(all) < n {
		records, err := s.store.Page(s.Context(), before+1, 1000)
		if err != nil {
			s.Fatal(err)
		}
		for i := range records {
			all, before = append(all, records[i].Seq), records[i].Seq
		}
	}
	return all
}

// A follower of the log gets each message once and in order: from the one where it begins, later
// ones, and after a cut those after its last one.
func TestFollowLog(t *testing.T) {
	t.Parallel()
	s := open(t, func(s *Server) { s.bodyTimeout = 50 * time.Millisecond }) // which means the request, and not how long he listens
	old := s.submitted(300)
	l := s.listen("/api/v1/events?from=1")
	if got := l.sequences(len(old)); !slices.Equal(got, old) {
		t.Fatalf("heard %d of what was there, want %d: %v", len(got), len(old), got)
	}
	var more []uint64
	for range 5 {
		more = append(more, s.submitted(20)...)
	}
	if got := l.sequences(60); !slices.Equal(got, more[:60]) {
		t.Fatalf("heard %v, want %v", got, more[:60])
	}
	l.leave()
	more = append(more, s.submitted(20)...)
	l = s.listen("/api/v1/events?from=1", "Last-Event-ID", itoa(more[59]))
	if got := l.sequences(len(more) - 60); !slices.Equal(got, more[60:]) {
		t.Fatalf("after the cut he hears %v, want %v", got, more[60:])
	}
	late := s.listen("/api/v1/events") // from now on
	last := s.submitted(1)
	for _, l := range []*listener{l, late} {
		h, ok := l.next()
		var fact client.ShownFact
		if !ok || h.id != last[0] || h.event != string(events.TaskSubmitted) || json.Unmarshal([]byte(h.data), &fact) != nil || fact.Seq != h.id {
			t.Errorf("the last is %+v", h)
		}
	}
	s.refused(400, "bad-request", "GET", "/api/v1/events", "", "Accept", "text/event-stream", "Last-Event-ID", "99999")
	s.refused(400, "bad-request", "GET", "/api/v1/events", "", "Accept", "text/event-stream", "Last-Event-ID", "x")
}

// An answer is sent again when it has changed.
func TestFollowAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	l := s.listen("/api/v1/tasks?states=pending")
	other := s.listen("/api/v1/tasks?states=pending")
	var page client.ListPage
	for n := range 3 {
		for _, l := range []*listener{l, other} {
			for page.Tasks = nil; ; {
				h, ok := l.next()
				if !ok || h.event != "answer" {
					t.Fatalf("after %d tasks: %+v", n, h)
				}
				if err := json.Unmarshal([]byte(h.data), &page); err != nil {
					t.Fatal(err)
				}
				if h.id < page.Seq-1 && page.Seq > 0 {
					t.Errorf("an answer that reaches to %d has the id %d", page.Seq, h.id)
				}
				if len(page.Tasks) == n {
					break
				}
			}
		}
		s.submitted(1)
	}
	s.refused(404, "no-task", "GET", "/api/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "Accept", "text/event-stream")
}

// An answer that changes by itself is sent again even if the log does not change.
func TestFollowMoving(t *testing.T) {
	t.Parallel()
	made := 0
	s := open(t, func(s *Server) {
		s.alive = time.Second
		s.Pages = func(w http.ResponseWriter, r *http.Request, who func() (Caller, error)) {
			c, _ := who() // it is known
			_ = s.FollowParts(w, r, c, "x", func(context.Context) ([]Part, error) {
				made++
				return []Part{{Name: "n", Text: strconv.AppendInt(nil, int64(made), 10), Moving: made < 3}}, nil
			})
		}
	})
	l := s.listen("/moving")
	for _, want := range []string{"1", "2", "3"} {
		if h, ok := l.next(); !ok || h.event != "n" || h.data != want {
			t.Fatalf("want %s, there is %+v", want, h)
		}
	}
	begun := time.Now() // a script in a browser hears that the server is there
	if h, ok := l.next(); !ok || h.event != "alive" || time.Since(begun) > s.alive+takesWithin {
		t.Errorf("who follows a page on which nothing happens hears %+v after %v", h, time.Since(begun))
	}
}

// The output of a task is followed to its end, and after a cut from where it was.
func TestFollowTask(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var r client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}}}`, &r)
	prints := func(n int) {
		if err := s.store.Print(t.Context(), output.Lines{Task: r.ID, Attempt: 1, Epoch: 1, Lines: []output.Line{{N: n, Stream: output.Stdout, Text: "a\r\nb"}}}); err != nil {
			t.Fatal(err)
		}
	}
	prints(1)
	path := "/api/v1/tasks/" + string(r.ID) + "/output"
	l := s.listen(path)
	line := func(l *listener) (uint64, int) {
		h, ok := l.next()
		var b output.Lines
		if !ok || h.event != "batch" || json.Unmarshal([]byte(h.data), &b) != nil || b.Lines[0].Text != "a\r\nb" {
			t.Fatalf("heard %+v", h)
		}
		return h.id, b.Lines[0].N
	}
	if _, n := line(l); n != 1 {
		t.Errorf("the first line is %d", n)
	}
	prints(2)
	at, n := line(l)
	if n != 2 {
		t.Errorf("the second line is %d", n)
	}
	l.leave()
	prints(3)
	l = s.listen(path, "Last-Event-ID", itoa(at))
	if _, n := line(l); n != 3 {
		t.Errorf("after the cut comes line %d", n)
	}
	s.want(200, "POST", "/api/v1/tasks/"+string(r.ID)+"/cancel", "", nil)
	if h, ok := l.next(); !ok || h.event != "end" {
		t.Errorf("the end is %+v", h)
	}
	s.refused(404, "no-task", "GET", "/api/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV/output", "", "Accept", "text/event-stream")
}

// A follower that does not take what it is sent is dropped and counted; others do not wait for it,
// and those that come back continue.
func TestSlowFollower(t *testing.T) {
	s := open(t, func(s *Server) { s.feed.bytes = 256 << 10 })
	s.takesWithin.Store(int64(time.Second))
	s.listen("/api/v1/events")           // and reads none of it
	s.takesWithin.Store(int64(patience)) // others are quick, but this machine may not be
	quick := s.listen("/api/v1/events")
	var got, want []uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for h, ok := quick.next(); ok && h.event != string(events.TaskCancelled); h, ok = quick.next() {
			got = append(got, h.id)
		}
	}()
	c := client.New(s.store, "test")
	long := birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"echo", strings.Repeat("long ", 2000)}}}}
	var last client.Receipt
	for _, dropped := s.Followers(); dropped == 0; _, dropped = s.Followers() {
		err := c.SubmitMany(t.Context(), long, 100, func(r client.Receipt) {
			last = r
			want = append(want, r.Seq)
		})
		if err != nil {
			t.Fatal(err)
		}
		s.want(200, "GET", "/api/v1/tasks?limit=1&at_least="+itoa(last.Seq), "", nil)
	}
	if _, err := c.Cancel(t.Context(), last.ID, ""); err != nil {
		t.Fatal(err)
	}
	<-done
	if !slices.Equal(got, want) {
		t.Errorf("the quick one heard %d of %d", len(got), len(want))
	}
	if now, dropped := s.Followers(); now != 1 || dropped != 1 {
		t.Errorf("%d follow, and %d were dropped", now, dropped)
	}
}

// A thousand followers on one server: each gets everything, and their cost is bounded.
func TestThousandFollowers(t *testing.T) {
	const followers, tasks = 1000, 200
	s := open(t, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := make([]*listener, followers)
	for i := range all {
		all[i] = s.listen("/api/v1/events")
	}
	if now, _ := s.Followers(); now != followers {
		t.Fatalf("%d follow", now)
	}
	want := s.submitted(tasks)
	var listening sync.WaitGroup
	wrong := make(chan string, followers)
	for i, l := range all {
		listening.Go(func() {
			if got := l.sequences(tasks); !slices.Equal(got, want) {
				wrong <- fmt.Sprintf("follower %d heard %d of %d", i, len(got), len(want))
			}
		})
	}
	listening.Wait()
	close(wrong)
	for text := range wrong {
		t.Error(text)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// Both ends of each connection are in this process.
	each := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / followers
	t.Logf("a follower takes %d kB, both ends of the connection", each>>10)
	if each > 128<<10 {
		t.Errorf("a follower takes %d kB", each>>10)
	}
	if _, dropped := s.Followers(); dropped != 0 {
		t.Errorf("%d were dropped", dropped)
	}
}

// The feed keeps a bounded number of bytes, and tells a follower that has fallen behind.
func TestFeed(t *testing.T) {
	t.Parallel()
	f := newFeed()
	f.bytes = 1000
	step := func(seq uint64) []events.Step {
		return []events.Step{{Record: &events.Record{Seq: seq, Raw: []byte(`{"a":"` + strings.Repeat("x", 100) + `"}`)}}}
	}
	f.Observe(step(1))
	if _, has, floor, _ := f.after(0); has || floor != 0 {
		t.Error("kept for nobody")
	}
	leave := f.follow()
	_, _, _, changed := f.after(1)
	for seq := uint64(2); seq < 50; seq++ {
		f.Observe(step(seq))
	}
	<-changed
	f.Observe(step(49)) // again, as of a read model that is made anew
	if f.size > f.bytes || f.stale > f.bytes {
		t.Errorf("%d and %d bytes are kept", f.size, f.stale)
	}
	if _, has, floor, _ := f.after(2); has || floor == 0 {
		t.Errorf("it has what is gone, from %d", floor)
	}
	frames, has, _, _ := f.after(47)
	if !has || len(frames) != 2 || frames[0].seq != 48 || frames[1].seq != 49 {
		t.Errorf("behind 47: %v", frames)
	}
	if frames, has, _, _ := f.after(49); !has || len(frames) != 0 {
		t.Errorf("behind the last: %v", frames)
	}
	leave()
	if f.Observe(step(50)); len(f.frames) != 0 {
		t.Error("kept when all have left")
	}
}

// A follower of the log with a filter gets what the filter chooses, of old and new messages.
func TestFollowChosen(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	submit := func(queue string) (r client.Receipt) {
		t.Helper()
		s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}},"queue":"`+queue+`"}`, &r)
		return r
	}
	end := func(id task.ID) uint64 {
		t.Helper()
		s.want(200, "POST", "/api/v1/tasks/"+string(id)+"/cancel", "", nil)
		facts, err := s.store.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return facts[len(facts)-1].Seq
	}
	first, other := submit("crawl"), submit("other")
	old := end(first.ID)
	end(other.ID)
	queue := s.listen("/api/v1/events?from=1&queue=crawl")
	types := s.listen("/api/v1/events?from=1&types=task.cancelled&task=" + string(first.ID))
	if got := queue.sequences(2); !slices.Equal(got, []uint64{first.Seq, old}) {
		t.Errorf("of the queue was heard %v, want %v", got, []uint64{first.Seq, old})
	}
	if got := types.sequences(1); !slices.Equal(got, []uint64{old}) {
		t.Errorf("of the task was heard %v, want %v", got, []uint64{old})
	}
	var want []uint64
	for _, name := range []string{"other", "crawl", "other", "crawl"} {
		r := submit(name)
		if seq := end(r.ID); name == "crawl" {
			want = append(want, r.Seq, seq)
		}
	}
	if got := queue.sequences(len(want)); !slices.Equal(got, want) {
		t.Errorf("then is heard %v, want %v", got, want)
	}
	var page struct {
		Facts []client.ShownFact
		Next  uint64
	}
	s.want(200, "GET", "/api/v1/events?queue=crawl&limit=3", "", &page)
	if len(page.Facts) != 3 || page.Facts[2].Seq != want[0] || page.Next <= want[0] {
		t.Errorf("the first page is %+v", page)
	}
	s.refused(400, "bad-request", "GET", "/api/v1/events?types=nothing", "")
	s.refused(400, "bad-request", "GET", "/api/v1/events?task=x", "", "Accept", "text/event-stream")
}

// A stream is compressed for callers that want that, each frame as soon as it is there.
func TestFollowCompressed(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/api/v1/events?from=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Accept-Encoding", "gzip")
	got, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	if got.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("it comes as %v", got.Header)
	}
	counted := &count{from: got.Body}
	plain, err := gzip.NewReader(counted)
	if err != nil {
		t.Fatal(err)
	}
	heard := 0
	l := &listener{s, bufio.NewReader(io.TeeReader(plain, lengthOf(func(n int) { heard += n }))), func() {}, got.Body.Close}
	for range 3 { // each is heard before the next one is made
		want := s.submitted(1)
		if got := l.sequences(1); !slices.Equal(got, want) {
			t.Fatalf("heard %v, want %v", got, want)
		}
	}
	all := s.submitted(200)
	if got := l.sequences(200); !slices.Equal(got, all) {
		t.Fatalf("heard %d, want 200", len(got))
	}
	if counted.n > heard/2 {
		t.Errorf("%d bytes come as %d", heard, counted.n)
	}
}

// count counts what is read.
type count struct {
	from io.Reader
	n    int
}

func (c *count) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += n
	return n, err
}

// lengthOf is called with how much is written.
type lengthOf func(int)

func (f lengthOf) Write(b []byte) (int, error) { f(len(b)); return len(b), nil }

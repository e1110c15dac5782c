package projections

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
)

// start runs a projector until the returned function is called.
func start(t *testing.T, p *Projector) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	}
}

func await(t *testing.T, s *Store, seq uint64) {
	t.Helper()
	if err := s.Wait(t.Context(), seq); err != nil {
		t.Fatal(err)
	}
}

func recorder(log events.Log) *events.Recorder {
	return &events.Recorder{Log: log, Actor: "test", Now: time.Now, NewID: func(time.Time) string { return ulid.Make().String() }}
}

func submit(t *testing.T, r *events.Recorder) (task.ID, uint64) {
	t.Helper()
	id := task.ID(ulid.Make().String())
	seq, err := r.Submit(t.Context(), id, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "noop"}, Route: "default.5"}})
	if err != nil {
		t.Fatal(err)
	}
	return id, seq
}

func TestProjectorFollows(t *testing.T) {
	log := events.NewMemory(time.Now, time.Minute)
	r := recorder(log)
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	defer stop()

	id, seq := submit(t, r)
	await(t, s, seq)
	if _, _, err := r.Do(t.Context(), mustLoad(t, r, id), task.Claim{Node: "n1", Session: "s", Offer: seq}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.DoNode(t.Context(), "n1", node.Register{Session: "s"}); err != nil {
		t.Fatal(err)
	}
	last := log.AppendRaw(events.Fact{Task: id}, []byte("no fact"))
	await(t, s, last)
	page, err := s.tasks(t.Context(), view.Filter{States: []task.State{task.Running}, Node: "n1"})
	if err != nil || page.Point.Seq != last || len(page.Tasks) != 1 || page.Tasks[0].Head != last {
		t.Errorf("page %+v, %v", page, err)
	}
	nodes, _, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].ID != "n1" {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	poison, _, err := s.messages(t.Context(), 0, 1)
	if err != nil || len(poison) != 1 || poison[0].Seq != last || string(poison[0].Raw) != "no fact" {
		t.Errorf("poison %+v, %v", poison, err)
	}
}

func mustLoad(t *testing.T, r *events.Recorder, id task.ID) task.Task {
	t.Helper()
	k, err := r.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The whole loop, with batches of every size, ends at the fold.
func TestProjectorEqualsFold(t *testing.T) {
	h := newHistory(7, 40)
	h.grow(1500)
	path := filepath.Join(t.TempDir(), "read.db")
	for _, n := range []int{1, 400, 401, 1500} {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, &Projector{Log: &recordedHistory{records: h.records[:n]}, Store: s, MaxBatch: 100, CacheSize: 5})
		await(t, s, h.records[n-1].Seq)
		stop()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check(t, open(t, path), h)
}

// recordedHistory is a log whose sequences have gaps. From 3 on, fails counts down its ways to
// fail, each once.
type recordedHistory struct {
	records []events.Record
	fails   atomic.Int32
}

var errLog = errors.New("the log is out of reach")

func (l *recordedHistory) Last(context.Context) (uint64, error) {
	if l.fails.Load() == 3 {
		l.fails.Add(-1)
		return 0, errLog
	}
	return l.records[len(l.records)-1].Seq, nil
}

func (l *recordedHistory) Follow(_ context.Context, from uint64) (events.Feed, error) {
	if l.fails.Load() == 2 {
		l.fails.Add(-1)
		return nil, errLog
	}
	at := 0
	for at < len(l.records) && l.records[at].Seq < from {
		at++
	}
	return &historyFeed{recordedFeed{l.records[at:]}, l}, nil
}

type historyFeed struct {
	recordedFeed
	log *recordedHistory
}

func (f *historyFeed) Next(ctx context.Context) ([]events.Record, error) {
	if f.log.fails.Load() == 1 {
		f.log.fails.Add(-1)
		return nil, errLog
	}
	return f.recordedFeed.Next(ctx)
}

func TestProjectorTriesAgain(t *testing.T) {
	h := newHistory(8, 10)
	h.grow(100)
	log := &recordedHistory{records: h.records}
	log.fails.Store(3)
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	defer stop()
	await(t, s, h.records[99].Seq)
	check(t, s, h)
}

func TestProjectorKnowsAnotherLog(t *testing.T) {
	long, short, other := newHistory(7, 5), newHistory(7, 5), newHistory(3, 5)
	long.grow(200)
	short.grow(100)
	other.grow(300)
	for i := range other.records {
		other.records[i].Fact.ID = fmt.Sprint("other", i)
	}
	path := filepath.Join(t.TempDir(), "read.db")
	for i, h := range []*history{long, short, long, other} {
		s := open(t, path)
		before := s.Reached()
		stop := start(t, &Projector{Log: &recordedHistory{records: h.records}, Store: s})
		for s.Reached() != h.records[len(h.records)-1].Seq {
			reached, changed := s.reach.now()
			if reached != h.records[len(h.records)-1].Seq {
				<-changed
			}
		}
		stop()
		check(t, s, h)
		// Only the second long log holds the records folded before.
		if rebuilt := len(s.Notices()) > 0; rebuilt != (i == 1 || i == 3) {
			t.Errorf("log %d after sequence %d: notices %v", i, before, s.Notices())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A step is new only to a reader that has not seen it; so is a rebuilt read model.
func TestNews(t *testing.T) {
	for name, c := range map[string]struct {
		reached, after, step uint64
		news                 bool
	}{
		"already there":        {reached: 5, after: 4, step: 5, news: true},
		"the next":             {reached: 5, after: 5, step: 6, news: true},
		"not as far":           {reached: 5, after: 9, step: 6},
		"made anew":            {reached: 5, after: 9, step: 0, news: true},
		"nothing has happened": {reached: 5, after: 5, step: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Store{reach: newReach()}
				s.reach.set(c.reached)
				ctx, cancel := context.WithCancel(t.Context())
				news := make(chan error, 1)
				go func() { news <- s.News(ctx, c.after) }()
				synctest.Wait()
				s.reach.set(c.step)
				synctest.Wait()
				cancel()
				if err := <-news; (err == nil) != c.news {
					t.Errorf("News returned %v", err)
				}
			})
		})
	}
}

func TestWaitEnds(t *testing.T) {
	s := open(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Wait(ctx, 1) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait returned %v, want the context's error", err)
	}
	news := make(chan error)
	go func() { news <- s.News(t.Context(), 0) }()
	go func() { ended <- s.Wait(t.Context(), 1) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-news; !errors.Is(err, ErrClosed) {
		t.Errorf("News returned %v, want %v", err, ErrClosed)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("Wait returned %v, want %v", err, ErrClosed)
	}
	if _, _, err := s.Counts(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Counts returned %v, want %v", err, ErrClosed)
	}
	if err := (&Projector{Log: events.NewMemory(time.Now, time.Minute), Store: s}).Run(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Run returned %v, want %v", err, ErrClosed)
	}
}

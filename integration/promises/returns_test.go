package promises

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/streams"
	"millrace/integration/chaos"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/worker"
)

var (
	returns     = flag.Int("returns", 8, "how many seeds TestWorkerReturns plays")
	returnsFrom = flag.Uint64("returns-from", 1, "the first of them")
)

// CLS-001: a worker drops and returns, and a task that was aimed at it before, while it was
// away or after its return starts there in time. Each seed is another way of being
// away; some drop twice. At the end the log is judged as a whole.
func TestWorkerReturns(t *testing.T) {
	if !*harness.Long { // else it has the machine to itself: its workers are in this process, as are many others
		t.Parallel()
	}
	const ways = 8 // workers, each with a link of its own
	p := harness.New(t, 2*time.Second)
	p.Let("MILLRACE_FLAP_LIMIT", "0")
	p.MayRepair("what a link held back can claim a task after its node was found offline")
	p.Server()
	c := p.Connect()
	most := fromReturn(t)
	var next atomic.Uint64
	next.Store(*returnsFrom)
	var mu sync.Mutex
	want := map[task.ID]task.State{} // guarded by mu
	var took []time.Duration         // guarded by mu
	var all errgroup.Group
	for i := range ways {
		s := newShaky(p, c, most, node.ID(fmt.Sprint("shaky-", i)))
		all.Go(func() error {
			for seed := next.Add(1) - 1; seed < *returnsFrom+uint64(*returns); seed = next.Add(1) - 1 {
				ids, waits, err := s.play(seed)
				mu.Lock()
				for _, id := range ids {
					want[id] = task.Finished
				}
				took = append(took, waits...)
				mu.Unlock()
				if err != nil {
					return fmt.Errorf("seed %d: %w\nreplay: go test ./integration/promises -run TestWorkerReturns -returns 1 -returns-from %d", seed, err, seed)
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	p.Judge(c, want)
	slices.Sort(took)
	t.Logf("%d seeds, %d tasks: from being able to start to their start p50 %v, p99 %v, worst %v",
		*returns, len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}

// endsWithin is how long a worker without work may take to end, beside what a starved machine takes.
const endsWithin = time.Second

// shaky is a worker on a link that comes and goes.
type shaky struct {
	place *harness.Place
	id    node.ID
	link  *chaos.Proxy
	c     *client.Client
	most  func() time.Duration // for which a task may wait
}

func newShaky(p *harness.Place, c *client.Client, most func() time.Duration, id node.ID) *shaky {
	p.Helper()
	target, err := url.Parse(p.URL)
	if err != nil {
		p.Fatal(err)
	}
	link, err := chaos.Listen(target.Host)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(link.Close)
	target.Host = link.Addr()
	nc, err := nats.Connect(target.String(), jet.Resilient(string(id), slog.New(slog.DiscardHandler))...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(nc.Close)
	store, err := jet.Open(p.Context(), nc, streams.Layout{AckWait: 2 * time.Second})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(store.Close)
	ready := make(chan struct{})
	w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{
		Node: id, Slots: 2, Beat: 300 * time.Millisecond, NodeTTL: time.Second, Flap: node.FlapPolicy{Limit: -1},
		Spool: p.Path("spool"), Ready: func() { close(ready) },
	})
	if err != nil {
		p.Fatal(err)
	}
	w.Handle("h", func(context.Context, task.Task) error { return nil })
	ctx, stop := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() { gone <- w.Run(ctx) }()
	p.Cleanup(func() {
		stop()
		patience := endsWithin + most()
		late := time.AfterFunc(patience, func() {
			all := make([]byte, 4<<20)
			p.Errorf("%s has not ended after %v\n%s", id, patience, all[:runtime.Stack(all, true)])
		})
		defer late.Stop()
		if err := <-gone; err != nil {
			p.Errorf("%s ended with %v", id, err)
		}
	})
	select {
	case <-ready:
	case err := <-gone:
		p.Fatalf("%s ended with %v", id, err)
	}
	return &shaky{place: p, id: id, link: link, c: c, most: most}
}

// play drops the link as the seed says, and aims three tasks at the node. It returns them with how
// long each waited for its start once nothing was in its way. The error names the task that started
// too late, or never.
func (s *shaky) play(seed uint64) (ids []task.ID, waits []time.Duration, err error) {
	chance := rand.New(rand.NewPCG(seed, 1))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(chance.Int64N(int64(most-least)))
	}
	away := func() error {
		mode := []chaos.Kind{chaos.LinkCut, chaos.LinkBlackhole, chaos.LinkHalfOpen}[chance.IntN(3)]
		if err := s.link.Set(chaos.Mode{Kind: mode}); err != nil {
			return err
		}
		<-time.After(between(20*time.Millisecond, 2200*time.Millisecond)) // in which the heartbeat and the lease run out, or not
		return nil
	}
	var asked []time.Time
	aim := func() error {
		receipt, err := s.c.Submit(s.place.Context(), birth.Submission{Spec: &job.Spec{Handler: "h"}, Nodes: []string{string(s.id)}, NoNode: job.NoNodeWait})
		ids, asked = append(ids, receipt.ID), append(asked, time.Now())
		return err
	}
	if err := aim(); err != nil { // it may be claimed, or run, when the link goes
		return ids, nil, err
	}
	<-time.After(between(0, 30*time.Millisecond))
	if err := away(); err != nil {
		return ids, nil, err
	}
	if chance.IntN(4) == 0 { // twice
		if err := s.link.Set(chaos.Mode{}); err != nil {
			return ids, nil, err
		}
		<-time.After(between(0, 600*time.Millisecond))
		if err := away(); err != nil {
			return ids, nil, err
		}
	}
	if err := aim(); err != nil {
		return ids, nil, err
	}
	if err := s.link.Set(chaos.Mode{}); err != nil {
		return ids, nil, err
	}
	back := time.Now()
	<-time.After(between(0, 300*time.Millisecond))
	if err := aim(); err != nil {
		return ids, nil, err
	}
	for i, id := range ids {
		wait, err := s.started(id, back, asked[i])
		if err != nil {
			return ids, waits, fmt.Errorf("task %d of 3: %w", i+1, err)
		}
		waits = append(waits, wait)
	}
	return ids, waits, nil
}

// started waits until the task has ended, and returns how long after the return of the link,
// or after it was asked for, its first attempt started.
func (s *shaky) started(id task.ID, back, asked time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(s.place.Context(), harness.Patience)
	defer cancel()
	done, err := s.c.Watch(ctx, id, func(task.Task) {})
	if err != nil {
		return 0, fmt.Errorf("%s is %s: %w", id, done.State, err)
	}
	records, err := s.c.History(ctx, id)
	if err != nil {
		return 0, err
	}
	// An offer that was still under way may be claimed before the node counts as back; then the
	// attempt is taken for lost and the task started once more.
	i := slices.IndexFunc(records, func(r events.Record) bool { return r.Fact.Type == events.AttemptStarted })
	if i < 0 {
		return 0, fmt.Errorf("%s is %s (%s) and never started\n%s", id, done.State, done.Message, harness.Story(records))
	}
	if asked.After(back) {
		back = asked
	}
	wait := max(records[i].Stored.Sub(back), 0)
	if wait > s.most() || done.State != task.Finished || done.Node != string(s.id) {
		return wait, fmt.Errorf("%s is %s on %s and started after %v, want it on %s after %v at most\n%s", id, done.State, done.Node, wait, s.id, s.most(), harness.Story(records))
	}
	return wait, nil
}

package logtest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

var recorderCases = []testCase{
	{name: "of racing claims one starts", body: claims},
	{name: "a task's life", body: life},
	{name: "a node's life", body: nodeLife},
}

func (s *suite) recorder(log events.Log, actor string) *events.Recorder {
	return &events.Recorder{Log: log, Actor: actor, Now: now, NewID: func(time.Time) string { return s.id() }}
}

func claims(s *suite) {
	const claimants, rounds = 8, 5
	for range rounds {
		r := s.recorder(s.log, "")
		id := s.task()
		birth, err := r.Submit(s.context(), id, task.Submitted{Work: work("default")})
		if err != nil {
			s.Fatal(err)
		}
		t, err := r.Load(s.context(), id)
		if err != nil {
			s.Fatal(err)
		}
		var wg sync.WaitGroup
		start := make(chan struct{})
		results := make(chan error, claimants)
		for i := range claimants {
			ctx := s.context()
			wg.Go(func() {
				<-start
				// Each has an offer of its own, as if the birth had been placed several times.
				c := task.Claim{Node: fmt.Sprintf("n%d", i), Session: "s1", Offer: birth + uint64(i)}
				now, e, err := r.Do(ctx, t, c)
				if started, ok := e.(task.AttemptStarted); err == nil && (!ok || started.Node != c.Node || now.Node != c.Node || now.Epoch != now.Head) {
					err = fmt.Errorf("a claim gave %+v and task %+v", e, now)
				}
				results <- err
			})
		}
		close(start)
		wg.Wait()
		close(results)
		won := 0
		for err := range results {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, task.ErrStale):
				s.Errorf("a loser got %v, want ErrStale", err)
			}
		}
		records := s.history(id)
		if won != 1 || len(records) != 2 || records[1].Fact.Type != events.AttemptStarted {
			s.Fatalf("%d claims won, and the task has %d records; want 1 and 2", won, len(records))
		}
	}
}

// Submitted, failed, retried after a while, taken over, finished.
func life(s *suite) {
	ctx := s.context()
	r, offers, id := s.recorder(s.log, "n1"), s.offers("default"), s.task()
	do := func(t task.Task, c task.Command, want task.State) task.Task {
		s.Helper()
		t, _, err := r.Do(ctx, t, c)
		if err != nil || t.State != want {
			s.Fatalf("%T: the task is %s, error %v; want %s", c, t.State, err, want)
		}
		return t
	}
	claim := func(offer *events.Offer, node string, over *task.Account) task.Task {
		s.Helper()
		c := task.Claim{Node: node, Session: "s1", Offer: offer.Seq, Account: over}
		switch e := offer.Fact.Event.(type) {
		case task.Queued:
			c.After = e.After
		case task.Due:
			c.After, c.Reference = e.After, &e
		}
		t := events.FoldTask(id, s.history(id))
		for t.Seq < c.After { // a server that was suspended may answer for a moment as if it still led
			t = events.FoldTask(id, s.history(id))
		}
		return do(t, c, task.Running)
	}
	birth := work("default")
	birth.Spec = &job.Spec{Handler: "flaky", Retry: job.Retry{Max: 1, Min: value.Duration(soon)}}
	submitted := time.Now()
	if _, err := r.Submit(ctx, id, task.Submitted{Work: birth}); err != nil {
		s.Fatal(err)
	}

	first := s.next(offers)
	t := claim(first, "n1", nil)
	t = do(t, task.Fail{Epoch: t.Epoch, Class: value.Task, Message: "flaky"}, task.Retrying)
	for range 2 { // settling twice is harmless
		if err := r.Settle(ctx, &t); err != nil {
			s.Fatal(err)
		}
	}
	late := time.Now().After(t.Due) // then the second settling may have placed an offer beside the timer's
	s.ack(first)

	second := s.following(offers, first, submitted)
	s.onTime(second, t.Due)
	again := t.Due.Add(s.o.AckWait) // at the earliest: when the second lease may have expired
	t = claim(second, "n1", nil)
	third := s.next(offers) // n1 is silent
	for late && third.Seq != second.Seq {
		s.ack(third)
		third = s.next(offers)
	}
	s.delivered(third, id, 2)
	taken := claim(third, "n2", &task.Account{Epoch: t.Epoch, Session: t.Session})
	if taken.Losses != 1 || taken.Epoch <= t.Epoch {
		s.Fatalf("after a takeover: %d losses, epoch %d; before it %d", taken.Losses, taken.Epoch, t.Epoch)
	}
	if _, _, err := r.Do(ctx, t, task.Finish{Epoch: t.Epoch}); !errors.Is(err, task.ErrFenced) {
		s.Fatalf("the old epoch's result: %v, want ErrFenced", err)
	}
	do(taken, task.Finish{Epoch: taken.Epoch}, task.Finished)
	s.ack(third)
	if !late && time.Until(again.Add(s.o.AckWait)) > s.o.AckWait/2 { // otherwise this lease may have expired, too, before the log had the acknowledgement
		s.nothing(offers, s.o.AckWait*3/2)
	}

	if t, err := r.Load(ctx, id); err != nil || t.State != task.Finished || t.Attempt != 3 {
		s.Errorf("the task is %s after %d attempts, error %v; want finished after 3", t.State, t.Attempt, err)
	}
}

// elsewhere returns a sequence behind which n1 goes on, although its chain has no fact there.
func (s *suite) elsewhere() uint64 {
	s.Helper()
	r := s.recorder(s.log, "scheduler")
	other, _, err := r.DoNode(s.context(), "n2", node.Register{Session: "s1"})
	if err == nil {
		_, _, err = r.DoNode(s.context(), "n1", node.Leave{Session: "s1"})
	}
	if err != nil {
		s.Fatal(err)
	}
	return other.Head
}

func nodeLife(s *suite) {
	const beats = 6
	r := s.recorder(s.log, "scheduler")
	if _, _, err := r.DoNode(s.context(), "n1", node.Register{Session: "s1"}); err != nil {
		s.Fatal(err)
	}
	var wg sync.WaitGroup
	for range beats { // as if several schedulers saw the same heartbeat
		ctx := s.context()
		wg.Go(func() {
			if n, _, err := r.DoNode(ctx, "n1", node.Beat{Session: "s1"}); err != nil || n.State != node.Online {
				s.Errorf("after a beat the node is %s, error %v", n.State, err)
			}
		})
	}
	wg.Wait()
	records, err := s.log.Node(s.context(), "n1", 0)
	if err != nil || len(records) != 2 {
		s.Fatalf("the node has %d records, error %v; want 2", len(records), err)
	}
	for from, want := range map[uint64]int{0: 2, records[0].Seq: 2, records[1].Seq: 1} {
		if rest, err := s.log.Node(s.context(), "n1", from); err != nil || len(rest) != want || rest[want-1].Seq != records[1].Seq || rest[want-1].Fact.ID != records[1].Fact.ID {
			s.Errorf("from %d on the node has the records %v, error %v; want %d", from, sequences(rest), err, want)
		}
	}
	// A log that has lost its last messages, and one that has others where the node had its own.
	for _, from := range []uint64{records[1].Seq + 9, s.elsewhere()} {
		if rest, err := s.log.Node(s.context(), "n1", from); !errors.Is(err, node.ErrUnknown) {
			s.Errorf("from %d on, where the node has no fact, it has %v, error %v; want ErrUnknown", from, sequences(rest), err)
		}
	}
	if _, err := s.log.Node(s.context(), "nobody", 7); !errors.Is(err, node.ErrUnknown) {
		s.Errorf("what follows on a chain that is not there: %v, want ErrUnknown", err)
	}
	if none, err := s.log.Node(s.context(), "nobody", 0); err != nil || len(none) > 0 {
		s.Errorf("a node that nobody knows has %d records, error %v", len(none), err)
	}
}

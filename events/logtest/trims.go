package logtest

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/queue"
)

// A log that can forget its front ([events.Trimmer]) has these cases, too.
var trimCases = []testCase{
	{name: "the front of the log goes", body: trims(frontGoes)},
	{name: "what is out or waits is the floor", body: trims(floors)},
	{name: "which tasks go on behind a sequence", body: trims(goesOn)},
	{name: "a carried task is the same task", body: trims(carriedTask)},
	{name: "a carried task keeps the offer that came meanwhile", body: trims(carriedBesideOffer)},
	{name: "carried nodes and queues are the same", body: trims(carriedFolds)},
	{name: "a repeated fact is the end of its chain", body: trims(repeated)},
}

// trims runs a case on a log that can forget.
func trims(body func(*suite, events.Trimmer)) func(*suite) {
	return func(s *suite) {
		if log, can := s.log.(events.Trimmer); can {
			body(s, log)
		}
	}
}

func (s *suite) trim(log events.Trimmer, below uint64) {
	s.Helper()
	if err := log.Trim(s.context(), below); err != nil {
		s.Fatalf("Trim(%d): %v", below, err)
	}
}

func frontGoes(s *suite, log events.Trimmer) {
	a, b := s.task(), s.task()
	old := s.append(s.fact(b, note("b")), 0)
	var seqs []uint64
	for range 4 {
		last := uint64(0)
		if n := len(seqs); n > 0 {
			last = seqs[n-1]
		}
		seqs = append(seqs, s.append(s.fact(a, note("a")), last))
	}
	for range 2 { // it can be done again
		s.trim(log, seqs[2])
		if first, err := log.First(s.context()); err != nil || first != seqs[2] {
			s.Fatalf("the log begins at %d (%v), want %d", first, err, seqs[2])
		}
		if got := sequences(s.history(a)); !slices.Equal(got, seqs[2:]) {
			s.Fatalf("the task has records %v, want %v", got, seqs[2:])
		}
	}
	if n := len(s.history(b)); n > 0 {
		s.Errorf("a task of which all is gone has %d records", n)
	}
	if _, err := s.log.Append(s.context(), s.fact(b, note("late")), old); !errors.Is(err, events.ErrConflict) {
		s.Errorf("behind a fact that is gone: %v, want a conflict", err)
	}
	next := s.append(s.fact(b, note("anew")), 0)
	if next <= seqs[3] {
		s.Errorf("the next sequence is %d, and %d was given", next, seqs[3])
	}
	feed, err := s.all.Follow(s.context(), 1)
	if err != nil {
		s.Fatal(err)
	}
	defer feed.Close()
	var read []uint64
	for len(read) < 3 {
		records, err := feed.Next(s.context())
		if err != nil {
			s.Fatal(err)
		}
		for i := range records {
			if records[i].IsFact() {
				read = append(read, records[i].Seq)
			}
		}
	}
	if want := append(slices.Clone(seqs[2:]), next); !slices.Equal(read, want) {
		s.Errorf("a reader from the beginning sees %v, want %v", read, want)
	}
	records := s.history(b)
	if seq, stored, err := log.StoredAt(s.context(), records[0].Stored); err != nil || seq > next || seq < seqs[2] || stored.After(records[0].Stored) {
		s.Errorf("the first message since %v is %d of %v, %v; want one up to %d", records[0].Stored, seq, stored, err, next)
	}
	if seq, _, err := log.StoredAt(s.context(), now().Add(time.Hour)); err != nil || seq != 0 {
		s.Errorf("in an hour there is message %d (%v), want none", seq, err)
	}
}

func floors(s *suite, log events.Trimmer) {
	is := func(want uint64, when string) {
		s.Helper()
		var last events.Floor
		var err error
		if !testkit.Poll(patience, func() bool {
			last, err = log.Floor(s.context())
			return err == nil && last.Seq == want
		}) {
			s.Fatalf("%s the floor is %+v (%v), want %d", when, last, err, want)
		}
	}
	is(0, "without offers")
	mine := s.offers("default", "other")
	var seqs []uint64
	for _, queue := range []string{"default", "other", "default"} {
		seqs = append(seqs, s.place(s.fact(s.task(), task.Submitted{Work: work(queue)})))
	}
	got := map[uint64]*events.Offer{}
	is(seqs[0], "before anything is handed out")
	for len(got) < 3 {
		o := s.next(mine)
		if got[o.Seq] != nil {
			s.ack(o)
		}
		got[o.Seq] = o
	}
	is(seqs[0], "while all are leased")
	s.ack(got[seqs[1]])
	is(seqs[0], "when a later one is over")
	s.ack(got[seqs[0]])
	is(seqs[2], "when the first two are over")
	if err := got[seqs[2]].Return(); err != nil {
		s.Fatal(err)
	}
	is(seqs[2], "when the last is given back")
	for {
		o := s.next(mine)
		s.ack(o)
		if o.Seq == seqs[2] {
			break
		}
	}
	is(0, "when all are over")
}

func goesOn(s *suite, log events.Trimmer) {
	old, chain, offer := s.task(), s.task(), s.task()
	last := s.append(s.fact(chain, note("chain")), 0)
	s.append(s.fact(old, note("old")), 0)
	s.append(s.fact(offer, note("offer")), 0)
	from := s.append(s.fact(chain, note("more")), last)
	s.place(s.fact(offer, task.Queued{Work: work("default")}))
	later, err := log.Later(s.context(), []task.ID{old, chain, offer, s.task()}, from)
	if want := map[task.ID]bool{chain: true, offer: true}; err != nil || !reflect.DeepEqual(later, want) {
		s.Errorf("%v go on from %d (%v), want %v", later, from, err, want)
	}
	if later, err = log.Later(s.context(), []task.ID{chain}, from+1); err != nil || later[chain] {
		s.Errorf("behind %d: %v, %v; want none", from, later, err)
	}
}

// folded checks that two folds of a task differ in nothing but where the log is.
func (s *suite) folded(when string, is, was task.Task) {
	s.Helper()
	is.Head, is.Seq, was.Head, was.Seq = 0, 0, 0, 0
	if !reflect.DeepEqual(is, was) {
		s.Errorf("%s the task is\n%+v, and was\n%+v", when, is, was)
	}
}

func carriedTask(s *suite, log events.Trimmer) {
	rec := s.recorder(s.log, "scheduler")
	id := s.task()
	spec := &job.Spec{Handler: "noop", Retry: job.Retry{Max: 3}, Signal: &job.Signal{Name: "approval"}}
	w := work("default")
	w.Spec, w.Holds, w.Labels, w.Params = spec, []string{task.HoldSignal}, map[string]string{"a": "b"}, []byte(`{"n":1}`)
	seq := s.place(s.fact(id, task.Submitted{Work: w, Due: now().Add(time.Hour)}))
	was := events.FoldTask(id, s.history(id))
	birth, _ := events.BirthOf(s.history(id))
	next := s.append(s.fact(s.task(), note("the next")), 0)
	for i := range 2 {
		did, err := rec.CarryTask(s.context(), id, next)
		if err != nil || did != (i == 0) {
			s.Fatalf("carried for the %d. time: %v, %v", i+1, did, err)
		}
	}
	s.folded("with all of the log", events.FoldTask(id, s.history(id)), was)
	s.trim(log, next)
	records := s.history(id)
	s.folded("with what is left of the log", events.FoldTask(id, records), was)
	b, ok := events.BirthOf(records)
	e, _ := birth.Fact.Event.(task.Submitted)
	if again, is := b.Fact.Event.(task.Submitted); !ok || b.Seq != seq || !is || again.Differs(&e) != "" {
		s.Errorf("its birth is %+v at %d, and was %+v at %d", b.Fact.Event, b.Seq, e, seq)
	}
	t, err := rec.Load(s.context(), id)
	if err != nil {
		s.Fatal(err)
	}
	if t, _, err = rec.Do(s.context(), t, task.Unhold{Hold: task.HoldSignal}); err != nil || t.State != task.Scheduled {
		s.Fatalf("after its signal it is %s, %v", t.State, err)
	}
	if did, err := rec.CarryTask(s.context(), id, t.Head+1); !did || err != nil {
		s.Fatalf("carried once more: %v, %v", did, err)
	}
	s.trim(log, t.Head+1)
	s.folded("carried twice", events.FoldTask(id, s.history(id)), t)
}

func carriedBesideOffer(s *suite, log events.Trimmer) {
	rec := s.recorder(s.log, "scheduler")
	id := s.task()
	birth := s.place(s.fact(id, task.Submitted{Work: work("default"), Due: now().Add(-time.Minute)}))
	c, _ := events.CarryOf(id, s.history(id))
	s.place(s.fact(id, task.Queued{Work: work("default"), Attempt: 1, After: birth, Due: now().Add(-time.Minute)}))
	was := events.FoldTask(id, s.history(id))
	if was.State != task.Pending {
		s.Fatalf("the offer makes it %s", was.State)
	}
	if _, err := s.log.AppendAll(s.context(), []*events.Fact{s.fact(id, c), s.fact(id, task.Kept{Head: birth})}, []uint64{0, birth}); err != nil {
		s.Fatal(err)
	}
	s.folded("with all of the log", events.FoldTask(id, s.history(id)), was)
	if did, err := rec.CarryTask(s.context(), id, birth+1); !did || err != nil {
		s.Fatalf("what was read too early is carried again: %v, %v", did, err)
	}
	s.folded("carried again", events.FoldTask(id, s.history(id)), was)
	s.trim(log, birth+1)
	s.folded("with what is left of the log", events.FoldTask(id, s.history(id)), was)
}

func carriedFolds(s *suite, log events.Trimmer) {
	rec := s.recorder(s.log, "scheduler")
	id := node.ID("carried")
	for _, c := range []node.Command{node.Register{Session: "a", Profile: node.Profile{Slots: 3}}, node.Beat{Session: "a"}} {
		if _, _, err := rec.DoNode(s.context(), id, c); err != nil {
			s.Fatal(err)
		}
	}
	if _, _, err := rec.DoQueue(s.context(), "carried", queue.PauseFor{Reason: "a pause"}); err != nil {
		s.Fatal(err)
	}
	known, err := rec.UpdateNode(s.context(), events.UnreadNode(id))
	if err != nil {
		s.Fatal(err)
	}
	q, err := rec.LoadQueue(s.context(), "carried")
	if err != nil {
		s.Fatal(err)
	}
	next := s.append(s.fact(s.task(), note("the next")), 0)
	for i := range 2 {
		did, err := rec.CarryNode(s.context(), id, next)
		also, wrong := rec.CarryQueue(s.context(), "carried", next)
		if err := errors.Join(err, wrong); err != nil || did != (i == 0) || also != (i == 0) {
			s.Fatalf("carried for the %d. time: %v, %v, %v", i+1, did, also, err)
		}
	}
	s.trim(log, next)
	now, err := rec.UpdateNode(s.context(), known)
	if err != nil {
		s.Fatalf("what is known of a node from before the horizon: %v", err)
	}
	n, err := rec.LoadNode(s.context(), id)
	if err != nil {
		s.Fatal(err)
	}
	if now.Head != n.Head {
		s.Errorf("the node's chain ends at %d and %d", now.Head, n.Head)
	}
	was := known.Node
	if n.Head, was.Head = 0, 0; !reflect.DeepEqual(n, was) {
		s.Errorf("the node is\n%+v, and was\n%+v", n, was)
	}
	is, err := rec.LoadQueue(s.context(), "carried")
	if is.Head, q.Head = 0, 0; err != nil || !reflect.DeepEqual(is, q) {
		s.Errorf("the queue is\n%+v (%v), and was\n%+v", is, err, q)
	}
	if _, _, err := rec.DoNode(s.context(), id, node.Leave{Session: "a"}); err != nil {
		s.Errorf("the node goes on: %v", err)
	}
}

func repeated(s *suite, log events.Trimmer) {
	rec := s.recorder(s.log, "scheduler")
	first, err := rec.ClaimKey(s.context(), "k", s.task(), 0)
	if err != nil {
		s.Fatal(err)
	}
	next := s.append(s.fact(s.task(), note("the next")), 0)
	about := events.Fact{Key: "k"}
	for i := range 2 {
		did, err := rec.CarryLast(s.context(), about, next, func(*events.Record) (bool, error) { return true, nil })
		if err != nil || did != (i == 0) {
			s.Fatalf("carried for the %d. time: %v, %v", i+1, did, err)
		}
	}
	s.trim(log, next)
	last, end, err := s.log.Latest(s.context(), about)
	if err != nil || last.Seq != end || end <= next || last.Original() != first || last.Fact.Repeats != first {
		s.Fatalf("the chain ends at %d with %+v (%v), want a repetition of %d", end, last, err, first)
	}
	if at, err := rec.ClaimKey(s.context(), "k", s.task(), first); at != 0 || err != nil {
		s.Errorf("a claim behind the original is at %d, %v; want none", at, err)
	}
	if at, err := rec.ClaimKey(s.context(), "k", s.task(), end); at == 0 || err != nil {
		s.Errorf("a claim behind the repetition is at %d, %v", at, err)
	}
}

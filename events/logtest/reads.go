package logtest

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
)

var readCases = []testCase{
	{name: "place births and an offer", body: placeKinds},
	{name: "a task's history", body: histories},
	{name: "the beginning of a chain", body: beginning},
	{name: "the rest of a history", body: rest},
	{name: "what was never recorded", body: empty},
	{name: "last", body: last},
	{name: "garbage on a chain", body: garbage, garbage: true},
}

// bigJSON is a JSON object of about n bytes.
func bigJSON(n int) json.RawMessage {
	return slices.Concat([]byte(`{"text":"`), bytes.Repeat([]byte("x"), n), []byte(`"}`))
}

func placeKinds(s *suite) {
	id := s.task()
	held := s.fact(id, task.Submitted{Work: work("default"), Due: now().Add(time.Hour)})
	offered := s.fact(id, task.Queued{Work: work("default"), Attempt: 1, Due: now()})
	other := s.task()
	born := s.fact(other, task.Submitted{Work: work("default")})

	a, b, c := s.place(held), s.place(offered), s.place(born)
	records := s.history(id)
	if len(records) != 2 {
		s.Fatalf("the task has %d records, want 2", len(records))
	}
	s.same(&records[0], events.KindChain, a, held)
	s.same(&records[1], events.KindOffer, b, offered)
	records = s.history(other)
	if len(records) != 1 {
		s.Fatalf("the other task has %d records, want 1", len(records))
	}
	s.same(&records[0], events.KindOffer, c, born)

	if _, err := s.log.Place(s.context(), s.fact(id, note("no offer"))); err == nil {
		s.Error("Place took what is no offer")
	}
	if err := s.log.Arm(s.context(), born); err == nil {
		s.Error("Arm took what is no later offer")
	}
	if n := len(s.history(id)); n != 2 {
		s.Errorf("the task has %d records after refusals, want 2", n)
	}
}

// The parts of a history lie in different places of the log, and are returned in one order.
func histories(s *suite) {
	ids := []task.ID{s.task(), s.task(), s.task()}
	want := map[task.ID][]uint64{}
	heads := map[task.ID]uint64{}
	add := func(id task.ID, seq uint64) uint64 { want[id] = append(want[id], seq); return seq }
	for _, id := range ids {
		add(id, s.place(s.fact(id, task.Submitted{Work: work("q1")})))
	}
	for _, queue := range []string{"q2", "q3", "q2"} {
		for _, id := range ids {
			heads[id] = add(id, s.append(s.fact(id, note("moves")), heads[id]))
			add(id, s.place(s.fact(id, task.Queued{Work: work(queue), Attempt: 1, After: heads[id]})))
		}
	}
	for _, id := range ids {
		records := s.history(id)
		if got := sequences(records); !slices.Equal(got, want[id]) {
			s.Errorf("task %s has the records %v, want %v", id, got, want[id])
		}
		for i := range records {
			if records[i].Fact.Task != id {
				s.Errorf("the history of task %s has a record of task %s", id, records[i].Fact.Task)
			}
		}
	}
}

// The beginning of a chain ends with the fact that is asked for.
func beginning(s *suite) {
	id, other := s.task(), s.task()
	birth := s.place(s.fact(id, task.Submitted{Work: work("q"), Due: now().Add(time.Hour)}))
	offer := s.place(s.fact(id, task.Queued{Work: work("q"), Attempt: 1, After: birth}))
	foreign := s.append(s.fact(other, note("moves")), 0)
	second := s.append(s.fact(id, note("moves")), birth)
	third := s.append(s.fact(id, note("moves")), second)
	for to, want := range map[uint64][]uint64{
		birth: {birth}, second: {birth, second}, third: {birth, second, third},
		offer: nil, foreign: nil, birth - 1: nil, third + 1: nil,
	} {
		records, err := s.log.(events.Beginner).Beginning(s.context(), id, to)
		if got := sequences(records); err != nil || !slices.Equal(got, want) {
			s.Errorf("up to %d it is %v (%v), want %v", to, got, err, want)
		}
	}
}

// The rest of a history begins with a fact of its chain.
func rest(s *suite) {
	id := s.task()
	birth := s.place(s.fact(id, task.Submitted{Work: work("q"), Due: now().Add(time.Hour)}))
	offer := s.place(s.fact(id, task.Queued{Work: work("q"), Attempt: 1, After: birth}))
	second := s.append(s.fact(id, note("moves")), birth)
	again := s.place(s.fact(id, task.Queued{Work: work("q"), Attempt: 1, After: second}))
	third := s.append(s.fact(id, note("moves")), second)
	for from, want := range map[uint64][]uint64{
		birth: {birth, offer, second, again, third}, second: {second, again, third}, third: {third},
		offer: nil, again: nil, birth - 1: nil, third + 1: nil,
	} {
		records, err := s.log.(events.Resumer).Rest(s.context(), id, from)
		if got := sequences(records); err != nil || !slices.Equal(got, want) {
			s.Errorf("from %d it is %v (%v), want %v", from, got, err, want)
		}
	}
	if records, err := s.log.(events.Resumer).Rest(s.context(), s.task(), 1); err != nil || len(records) != 0 {
		s.Errorf("a task that never was has %d records, error %v", len(records), err)
	}
}

func empty(s *suite) {
	if records := s.history(s.task()); len(records) != 0 {
		s.Errorf("a task that never was has %d records", len(records))
	}
	if records, err := s.log.Node(s.context(), "never-was", 0); err != nil || len(records) != 0 {
		s.Errorf("a node that never was has %d records, error %v", len(records), err)
	}
	if err := s.log.Disarm(s.context(), s.task(), 1); err != nil {
		s.Errorf("Disarm without a timer: %v", err)
	}
}

func last(s *suite) {
	check := func(want uint64) {
		s.Helper()
		if got, err := s.all.Last(s.context()); err != nil || got != want {
			s.Fatalf("Last is %d (%v), want %d", got, err, want)
		}
	}
	check(0)
	check(s.place(s.fact(s.task(), task.Submitted{Work: work("default")})))
	check(s.append(s.fact(s.task(), note("a")), 0))
}

func garbage(s *suite) {
	id := s.task()
	s.place(s.fact(id, task.Submitted{Work: work("default")}))
	s.o.Garbage(s.T, s.log, events.Fact{Task: id}, []byte(`{"type":"attempt.started","id":`))

	records := s.history(id)
	if len(records) != 2 {
		s.Fatalf("the task has %d records, want 2", len(records))
	}
	poison := &records[1]
	if poison.Err == nil || poison.Fact.Event != nil || poison.Fact.Task != id || poison.Kind != events.KindChain {
		s.Errorf("garbage came as %+v, want an error and the task", poison)
	}
	t := events.FoldTask(id, records)
	if t.State != task.Pending || t.Head != poison.Seq {
		s.Errorf("the task is %s at %d, want pending at %d", t.State, t.Head, poison.Seq)
	}
	after := s.append(s.fact(id, note("goes on")), t.Head)

	feed := s.follow(1)
	got := s.read(feed, 3)
	if got[1].Err == nil || got[1].Seq != poison.Seq || got[2].Seq != after || got[2].Err != nil {
		s.Errorf("a follower saw %v with the errors %v and %v, want garbage at %d and a fact after it", sequences(got), got[1].Err, got[2].Err, poison.Seq)
	}
}

package projections

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

// seen records the calls of an observer.
type seen struct {
	seqs  []uint64
	moves []string
}

func (s *seen) Observe(steps []events.Step) {
	for i := range steps {
		s.seqs = append(s.seqs, steps[i].Record.Seq)
		if steps[i].Was != steps[i].Is {
			s.moves = append(s.moves, steps[i].Was.State.String()+" "+steps[i].Is.State.String())
		}
	}
}

// Each record is reported once, also if its batch had to be folded twice.
func TestObserverHearsOnce(t *testing.T) {
	log := events.NewMemory(time.Now, time.Minute)
	r := recorder(log)
	id, birth := submit(t, r)
	s := open(t, "")
	first := &seen{}
	stop := start(t, &Projector{Log: log, Store: s, Observers: []Observer{first}})
	await(t, s, birth)
	stop()
	if len(first.seqs) != 1 || len(first.moves) != 1 || first.moves[0] != "unknown pending" {
		t.Errorf("heard of %v: %v", first.seqs, first.moves)
	}

	// A repeated birth is assumed to be a new task, refused because its row exists, and folded
	// again together with the rest of the batch.
	k := mustLoad(t, r, id)
	if _, err := log.Place(t.Context(), r.Fact(id, task.Submitted{Work: k.Work})); err != nil {
		t.Fatal(err)
	}
	k, _, err := r.Do(t.Context(), k, task.Claim{Node: "n1", Session: "s", Offer: birth})
	if err != nil {
		t.Fatal(err)
	}
	k, _, err = r.Do(t.Context(), k, task.Finish{Epoch: k.Epoch})
	if err != nil {
		t.Fatal(err)
	}
	second := &seen{}
	stop = start(t, &Projector{Log: log, Store: s, Observers: []Observer{second}})
	await(t, s, k.Seq)
	stop()
	if len(second.seqs) != 3 || second.seqs[0] != birth+1 || second.seqs[2] != k.Seq {
		t.Errorf("heard of %v, want %d to %d once", second.seqs, birth+1, k.Seq)
	}
	if len(second.moves) != 2 || second.moves[0] != "pending running" || second.moves[1] != "running finished" {
		t.Errorf("heard %v", second.moves)
	}
}

package projections

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

// open opens a store that is closed at the end of the test.
func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// project folds records into a store in batches of the sizes that next returns.
func project(t *testing.T, s *Store, cacheSize int, records []events.Record, next func() int) {
	t.Helper()
	f, err := newFold(t.Context(), s, cacheSize)
	if err != nil {
		t.Fatal(err)
	}
	for len(records) > 0 {
		n := min(next(), len(records))
		if err := f.apply(t.Context(), records[:n]); err != nil {
			t.Fatal(err)
		}
		records = records[n:]
	}
	if err := f.w.close(); err != nil {
		t.Fatal(err)
	}
}

func all() int { return 1 << 30 }

// stored returns every row of tasks.
func stored(t *testing.T, s *Store) map[task.ID]task.Task {
	t.Helper()
	tasks := map[task.ID]task.Task{}
	err := s.view(t.Context(), "read all", func(tx *sql.Tx, _ uint64) error {
		rows, err := tx.Query("SELECT " + rowColumns + " FROM tasks")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			row, err := scanTask(rows, newRowForm())
			if err != nil {
				return err
			}
			tasks[row.ID] = row
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// I-8: the read model equals the fold, for any ends of batches and restarts of processes.
func TestRowsEqualFold(t *testing.T) {
	for seed := range testkit.Size(uint64(8), 20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := newHistory(seed, 12)
			h.grow(400)
			path := filepath.Join(t.TempDir(), "read.db")
			for at := 0; at < len(h.records); {
				s, err := Open(path)
				if err != nil {
					t.Fatal(err)
				}
				// A restart reads some folded records again.
				from, to := max(0, at-h.IntN(30)), min(at+1+h.IntN(300), len(h.records))
				project(t, s, 1+h.IntN(5), h.records[from:to], func() int { return 1 + h.IntN(60) })
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				at = to
			}
			s := open(t, path)
			check(t, s, h)
			if len(s.Notices()) > 0 {
				t.Error("discarded:", s.Notices())
			}

			again := open(t, "")
			project(t, again, 100, h.records, all)
			check(t, again, h)
		})
	}
}

func check(t *testing.T, s *Store, h *history) {
	t.Helper()
	want, have := h.folded(), stored(t, s)
	for id, w := range want {
		if r, ok := have[id]; !ok || !reflect.DeepEqual(r, w) {
			t.Errorf("task %s:\nrow  %+v\nfold %+v", id, r, w)
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d rows, want %d", len(have), len(want))
	}
	last := h.records[len(h.records)-1].Seq
	if s.Reached() != last {
		t.Errorf("reached %d, want %d", s.Reached(), last)
	}

	wantCounts := map[string]map[task.State]int{}
	for _, w := range want {
		if w.State != task.Unknown {
			queue := w.QueueName()
			if wantCounts[queue] == nil {
				wantCounts[queue] = map[task.State]int{}
			}
			wantCounts[queue][w.State]++
		}
	}
	counts, seq, err := s.Counts(t.Context())
	if err != nil || seq != last || !reflect.DeepEqual(counts, wantCounts) {
		t.Errorf("counts at %d: %v, %v, want %v", seq, counts, err, wantCounts)
	}

	nodes, _, err := s.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	haveNodes := map[node.ID]node.Node{}
	for _, n := range nodes {
		haveNodes[n.ID] = n
	}
	if want := h.foldedNodes(); !reflect.DeepEqual(haveNodes, want) {
		t.Errorf("nodes:\nrows %+v\nfold %+v", haveNodes, want)
	}

	var poison, unknown int
	for _, r := range h.records {
		switch {
		case r.Err != nil || r.Kind == events.KindChain && r.Fact.Task == "":
			poison++
		case r.Fact.Event == nil && r.Kind != events.KindOther:
			unknown++
		}
	}
	dead := map[task.Letter]int{task.LetterGivenUp: 0, task.LetterUsedUp: 0}
	for _, w := range want {
		if w.Dead() {
			dead[w.Letter()]++
		}
	}
	if tasks, messages, err := s.Dead(t.Context()); err != nil || !maps.Equal(tasks, dead) || messages != poison {
		t.Errorf("%v tasks and %d messages are dead letters, want %v and %d; %v", tasks, messages, dead, poison, err)
	}
	rows, _, err := s.messages(t.Context(), 0, 1000)
	if err != nil || len(rows) != poison {
		t.Errorf("%d messages are poison, want %d; %v", len(rows), poison, err)
	}
	counters, err := countersOf(t.Context(), s)
	if err != nil || counters[UnknownType+"task.praised"] != unknown {
		t.Errorf("counters %v, want %d unknown; %v", counters, unknown, err)
	}
}

func TestFold(t *testing.T) {
	const id = task.ID("01JD6Z8V3M0QK4T7W2X9Y5ABCD")
	work := task.Work{Job: "crawl", Spec: &job.Spec{Handler: "crawl"}, Route: "gpu.7", Labels: map[string]string{"team": "a"}}
	record := func(seq uint64, kind events.Kind, e task.Event) events.Record {
		return events.Record{Seq: seq, Kind: kind, Fact: events.Fact{ID: fmt.Sprint("fact", seq), At: noon.Add(time.Duration(seq) * time.Second), Task: id, Event: e}}
	}
	born := record(1, events.KindOffer, task.Submitted{Work: work})
	started := record(2, events.KindChain, task.AttemptStarted{Attempt: 1, Node: "n1", Offer: 1})
	failed := record(3, events.KindChain, task.AttemptFailed{Epoch: 2, Class: value.Exit, Retry: &task.RetryPlan{Attempt: 2, Due: noon.Add(time.Hour)}})
	finished := record(4, events.KindChain, task.AttemptFinished{Epoch: 2})
	broken := events.Record{Seq: 5, Kind: events.KindChain, Fact: events.Fact{Task: id}, Err: fmt.Errorf("broken"), Place: "chain", Raw: make([]byte, 5000)}

	for _, tt := range []struct {
		name    string
		given   []events.Record
		state   task.State
		head    uint64
		queues  []string
		due     int // of deadlines, two hours later
		onNode  int
		poisons int
	}{
		{"submitted", []events.Record{born}, task.Pending, 0, []string{"gpu"}, 0, 0, 0},
		{"submitted twice", []events.Record{born, record(2, events.KindOffer, born.Fact.Event.(task.Event))}, task.Pending, 0, []string{"gpu"}, 0, 0, 0},
		{"running", []events.Record{born, started}, task.Running, 2, nil, 0, 1, 0},
		{"retrying", []events.Record{born, started, failed}, task.Retrying, 3, nil, 1, 0, 0},
		{"finished", []events.Record{born, started, finished}, task.Finished, 4, nil, 0, 0, 0},
		{"finished, then submitted again", []events.Record{born, started, finished, record(6, events.KindOffer, born.Fact.Event.(task.Event))}, task.Finished, 4, nil, 0, 0, 0},
		{"poison moves the head", []events.Record{born, started, broken}, task.Running, 5, nil, 0, 1, 1},
		{"a timer is no offer", []events.Record{born, started, failed, record(4, events.KindOther, task.Queued{Work: work, After: 3})}, task.Retrying, 3, nil, 1, 0, 0},
		{"claimed before its birth is seen", []events.Record{record(1, events.KindChain, task.AttemptStarted{Attempt: 1, Node: "n1"})}, task.Running, 1, nil, 0, 1, 0},
		{"only poison", []events.Record{broken}, task.Unknown, 5, nil, 0, 0, 1},
	} {
		for _, size := range []int{1, 100} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, size), func(t *testing.T) {
				s := open(t, "")
				project(t, s, 1, tt.given, func() int { return size })
				row := stored(t, s)[id]
				if row.State != tt.state || row.Head != tt.head {
					t.Errorf("%s at head %d, want %s at %d", row.State, row.Head, tt.state, tt.head)
				}
				if want := events.FoldTask(id, tt.given); tt.name != "a timer is no offer" && !reflect.DeepEqual(row, want) {
					t.Errorf("row  %+v\nfold %+v", row, want)
				}
				queues, err := s.Queues(t.Context())
				if err != nil || !slices.Equal(queues, tt.queues) {
					t.Errorf("queues %v, want %v; %v", queues, tt.queues, err)
				}
				due, err := s.Due(t.Context(), noon.Add(2*time.Hour), 10)
				if err != nil || len(due) != tt.due {
					t.Errorf("due: %v, want %d; %v", due, tt.due, err)
				}
				for session, want := range map[string]int{"s1": 0, "": tt.onNode, "another": tt.onNode} {
					if session == "s1" && row.Session != "s1" {
						want = tt.onNode
					}
					if got, err := s.Astray(t.Context(), "n1", session); err != nil || len(got) != want {
						t.Errorf("%d tasks run on n1 under another session than %q, %v; want %d", len(got), session, err, want)
					}
				}
				on, err := s.OnNode(t.Context(), "n1")
				if err != nil || len(on) != tt.onNode {
					t.Errorf("on node: %v, want %d; %v", on, tt.onNode, err)
				}
				poison, _, err := s.messages(t.Context(), 0, 10)
				if err != nil || len(poison) != tt.poisons {
					t.Errorf("poison: %v, want %d; %v", poison, tt.poisons, err)
				}
				for _, p := range poison {
					if len(p.Raw) != view.MaxRaw || p.Place != "chain" || p.Reason != "broken" {
						t.Errorf("poison %s: %s, %d bytes", p.Place, p.Reason, len(p.Raw))
					}
				}
				for _, want := range []int{tt.onNode, 0} {
					if got, err := s.Astray(t.Context(), "", ""); err != nil || len(got) != want {
						t.Errorf("%v run on nodes that are not known, want %d; %v", got, want, err)
					}
					project(t, s, 1, []events.Record{{Seq: 7, Kind: events.KindNode, Fact: events.Fact{Node: "n1", At: noon, Event: node.Registered{Session: "s1"}}}}, func() int { return 1 })
				}
			})
		}
	}
}

func TestFoldRefusesDisorder(t *testing.T) {
	s := open(t, "")
	f, err := newFold(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.w.close()
	for _, seqs := range [][]uint64{{1, 1}, {5, 4}, {3}} {
		var records []events.Record
		for _, seq := range seqs {
			records = append(records, events.Record{Seq: seq})
		}
		if err := f.apply(context.Background(), records); err == nil {
			t.Errorf("sequences %v after %d are folded", seqs, f.seen)
		}
	}
}

// The deadline in a row is the task's own deadline of package task.
func TestDeadline(t *testing.T) {
	states := map[task.State]bool{}
	for seed := range uint64(30) {
		h := newHistory(seed, 12)
		h.grow(10 + int(seed)*5)
		for _, folded := range h.folded() {
			states[folded.State] = true
			duty := duties.Owes(folded, duties.Surroundings{Serving: 1}, duties.Settings{})
			if duty.Look {
				duty.By = time.Time{} // a check is no deadline of its own
			}
			if have := deadlineOf(&folded); !have.Equal(duty.By) {
				t.Errorf("%s: deadline %v, want %v", folded.State, have, duty.By)
			}
		}
	}
	if len(states) < len(task.States())-1 { // this history holds no tasks
		t.Errorf("only these states came up: %v", slices.Sorted(maps.Keys(states)))
	}
}

func TestCache(t *testing.T) {
	c := newCache(2)
	for _, id := range []task.ID{"a", "b", "a", "c"} { // b is dropped first
		c.put(&task.Task{ID: id, State: task.Pending}, 1)
	}
	c.put(&task.Task{ID: "a", State: task.Finished}, 1)
	c.put(&task.Task{ID: "d", State: task.Finished}, 1)
	if have := slices.Sorted(maps.Keys(c.entries)); !slices.Equal(have, []task.ID{"c"}) {
		t.Errorf("the cache holds %v, want c", have)
	}
	c.put(&task.Task{ID: "e", State: task.Running}, 1)
	if _, ok := c.get("c"); !ok {
		t.Error("c is gone, though there was space")
	}
}

// A node's probe on its own route counts as no task, no node and no unreadable message.
func TestProbesLeaveNoTrace(t *testing.T) {
	s := open(t, "")
	h := &history{records: []events.Record{
		{Seq: 1, Kind: events.KindProbe, Place: "mr.queue.@n1.5.probe", Raw: []byte(`{"node":"n1"}`)},
		{Seq: 2, Kind: events.KindNode, Place: "mr.node.n1", Raw: []byte(`{}`), Fact: events.Fact{
			ID: "f", At: noon, Node: "n1", Type: events.NodeRegistered, Event: node.Registered{Session: "s"}}},
		{Seq: 3, Kind: events.KindProbe, Place: "mr.queue.@n1.5.probe", Raw: []byte(`nonsense`)},
	}}
	stop := start(t, &Projector{Log: &recordedHistory{records: h.records}, Store: s})
	defer stop()
	await(t, s, 3)
	counts, _, err := s.Counts(t.Context())
	if err != nil || len(counts) > 0 {
		t.Errorf("tasks %v, %v", counts, err)
	}
	poison, _, err := s.messages(t.Context(), 0, 10)
	if err != nil || len(poison) > 0 {
		t.Errorf("poison %v, %v", poison, err)
	}
	if counters, err := countersOf(t.Context(), s); err != nil || len(counters) > 0 {
		t.Errorf("counted %v, %v", counters, err)
	}
	if nodes, _, err := s.Nodes(t.Context()); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
}

// countersOf returns the counters of a read model that are not of tasks by state, by name.
func countersOf(ctx context.Context, s *Store) (map[string]int, error) {
	counters := map[string]int{}
	err := s.view(ctx, "read counters", func(tx *sql.Tx, _ uint64) error {
		var name string
		var n int
		return each(ctx, tx, "SELECT name, n FROM counters", nil, []any{&name, &n}, func() error {
			counters[name] = n
			return nil
		})
	})
	return counters, err
}

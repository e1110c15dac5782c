package submit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	desk "millrace/events/submit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/value"
)

// store is a log in memory with jobs and files beside it.
type store struct {
	*events.Memory
	jobs  map[string]job.Job
	files map[string]string // the version that a name refers to
}

var errNoJob, errNoFiles = errors.New("no job"), errors.New("no files")

func (s store) JobAt(_ context.Context, name string, _ uint64) (job.Job, uint64, error) {
	j, ok := s.jobs[name]
	if !ok {
		return j, 0, errNoJob
	}
	return j, 1, nil
}

func (s store) DeclareAll(context.Context, []*task.Work, string) error { return nil }

func (s store) PinFiles(_ context.Context, f *job.Files) (*job.Files, error) {
	version, ok := s.files[f.Bundle]
	if !ok {
		return nil, errNoFiles
	}
	pinned := *f
	pinned.Bundle = version
	return &pinned, nil
}

func (s store) Waiting(_ context.Context, queue string, _ int) (n int, handed uint64, err error) {
	for _, r := range s.All() {
		if birth, ok := r.Fact.Event.(task.Submitted); ok && birth.QueueName() == queue {
			n++
		}
	}
	return n, 0, nil
}

// newDesk returns a desk on a log in which queue "two" has room for two, with a job that has files.
func newDesk(t *testing.T) (*desk.Maker, store) {
	t.Helper()
	s := store{events.NewMemory(time.Now, time.Minute), map[string]job.Job{
		"j": {Name: "j", Spec: job.Spec{Run: &job.Run{Argv: []string{"x"}}, Files: &job.Files{Bundle: "app", Mode: job.FilesLink}}},
		"steps": {Name: "steps", Spec: job.Spec{Steps: []job.Step{
			{Name: "a", Spec: job.Spec{Run: &job.Run{Argv: []string{"x"}}, Files: &job.Files{Bundle: "app"}}},
			{Name: "b", Spec: job.Spec{Handler: "h", Signal: &job.Signal{}}},
		}}},
	}, map[string]string{"app": "app@1", "app@1": "app@1"}}
	d := &desk.Maker{Store: s, Rec: &events.Recorder{Log: s, Actor: "test", Now: time.Now, NewID: events.NewID}}
	two := 2
	if _, _, err := d.Rec.DoQueue(t.Context(), "two", queue.Limit{Waiting: &two}); err != nil {
		t.Fatal(err)
	}
	return d, s
}

func id(n int) task.ID { return task.ID(fmt.Sprintf("01HZ%022d", n)) }

// prepared returns a task to be under this id, which a submitter chose or, if it is fresh, was drawn
// for it.
func prepared(t *testing.T, d *desk.Maker, id task.ID, fresh bool, s birth.Submission) *desk.Newborn {
	t.Helper()
	s.ID, s.Fresh = id, fresh
	n, err := d.Prepare(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

// submit submits under an id that was drawn for it.
func submit(t *testing.T, d *desk.Maker, id task.ID, s birth.Submission) error {
	t.Helper()
	s.ID, s.Fresh = id, true
	r, err := d.Submit(t.Context(), s)
	if err == nil && (r.ID != id || r.Seq == 0 || r.Again || r.Existing) {
		t.Errorf("the receipt of %s is %+v", id, r)
	}
	return err
}

func handler(queue string) birth.Submission {
	return birth.Submission{Spec: &job.Spec{Handler: "h"}, Queue: queue}
}

// A single birth meets each condition, under each kind of id.
func TestBear(t *testing.T) {
	keyed := handler("q")
	keyed.Spec = &job.Spec{Handler: "h", Unique: job.Unique{Key: "k"}}
	for kind, fresh := range map[string]bool{"drawn": true, "chosen": false, "derived": false} {
		t.Run(kind, func(t *testing.T) {
			d, s := newDesk(t)
			next := 0
			newborn := func(s birth.Submission) *desk.Newborn {
				next++
				id := id(next)
				if kind == "derived" {
					id = birth.ChildID(id, "a")
				}
				return prepared(t, d, id, fresh, s)
			}
			bear := func(n *desk.Newborn) error { _, err := d.Bear(t.Context(), n); return err }

			free := newborn(handler("q"))
			first, err := d.Bear(t.Context(), free)
			if err != nil || first.ID != free.ID || first.Again || first.Existing {
				t.Fatalf("the first receipt is %+v, %v", first, err)
			}
			if kind != "drawn" { // a drawn id is unique
				if again, err := d.Bear(t.Context(), free); err != nil || !again.Again || again.ID != first.ID || again.Seq != first.Seq {
					t.Errorf("the same once more: %+v, %v", again, err)
				}
				other := handler("q")
				other.Group = "other"
				if err := bear(prepared(t, d, free.ID, false, other)); !errors.Is(err, desk.ErrOther) {
					t.Errorf("another one under its id: %v", err)
				}
			}

			var taken *events.Taken
			holder := newborn(keyed)
			if err := bear(holder); err != nil {
				t.Fatal(err)
			}
			second := newborn(keyed)
			if err := d.Refused(t.Context(), second); !errors.As(err, &taken) {
				t.Errorf("asked before, with its key taken: %v", err)
			}
			if err := bear(second); !errors.As(err, &taken) || taken.Holder != holder.ID {
				t.Errorf("with its key taken: %v", err)
			}

			var inTwo *desk.Newborn
			for range 2 {
				inTwo = newborn(handler("two"))
				if err := bear(inTwo); err != nil {
					t.Fatal(err)
				}
			}
			third := newborn(handler("two"))
			if err := d.Refused(t.Context(), third); !errors.Is(err, queue.ErrFull) {
				t.Errorf("asked before, into a full queue: %v", err)
			}
			before := len(s.All())
			if err := bear(third); !errors.Is(err, queue.ErrFull) || len(s.All()) != before {
				t.Errorf("into a full queue: %v, and %d records are written", err, len(s.All())-before)
			}
			if kind != "drawn" { // an existing task needs no room
				if again, err := d.Bear(t.Context(), inTwo); err != nil || !again.Again || len(s.All()) != before {
					t.Errorf("again into a full queue: %+v, %v, and %d records are written", again, err, len(s.All())-before)
				}
			}
			later := handler("two")
			later.Delay = value.Duration(time.Hour)
			if err := bear(newborn(later)); err != nil {
				t.Errorf("one that does not wait there yet: %v", err)
			}
			needy := handler("two")
			needy.Needs = &task.Needs{Of: []task.Need{{Task: id(99)}}}
			held := newborn(needy)
			if err := bear(held); err != nil {
				t.Errorf("one that needs what is not there: %v", err)
			}
			if is, err := d.Rec.Load(t.Context(), held.ID); err != nil || is.State != task.Held {
				t.Errorf("it is %s, %v", is.State, err)
			}
		})
	}
}

// A submitter that waits gets the holder of a key, if the task says so, and a parent's children.
func TestSubmit(t *testing.T) {
	d, _ := newDesk(t)
	keyed := handler("q")
	keyed.Spec = &job.Spec{Handler: "h", Unique: job.Unique{Key: "k", OnConflict: job.ConflictReturn}}
	first, err := d.Submit(t.Context(), keyed)
	if err != nil || first.Existing {
		t.Fatalf("the first is %+v, %v", first, err)
	}
	if second, err := d.Submit(t.Context(), keyed); err != nil || !second.Existing || second.ID != first.ID || second.Seq != first.Seq {
		t.Errorf("with the key taken: %+v, %v; want that %s stands for it", second, err, first.ID)
	}
	n := prepared(t, d, id(1), true, keyed)
	if _, err := d.Bear(t.Context(), n); !errors.As(err, new(*events.Taken)) {
		t.Errorf("for a maker that wants no other task: %v", err)
	}

	// The task of a tick or of a program's child is found wherever it lies.
	child := handler("q")
	child.ID = birth.ChildID(first.ID, "a")
	born, err := d.Submit(t.Context(), child)
	if err != nil {
		t.Fatal(err)
	}
	child.Queue = "elsewhere"
	if _, err := d.Submit(t.Context(), child); !errors.Is(err, desk.ErrOther) {
		t.Errorf("under the id of %+v another one: %v", born, err)
	}

	parent, err := d.Submit(t.Context(), birth.Submission{Job: "steps"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]task.State{"a": task.Pending, "b": task.Held} {
		if is, err := d.Rec.Load(t.Context(), birth.ChildID(parent.ID, name)); err != nil || is.State != want {
			t.Errorf("step %s of a new parent is %s, want %s: %v", name, is.State, want, err)
		}
	}
	each := birth.Submission{Spec: &job.Spec{Handler: "h", Place: job.Place{Mode: job.PlaceAll}}}
	d.Nodes = func(context.Context, *task.Task) ([]node.Node, uint64, string, error) {
		return nil, 7, task.RuleBeats, nil
	}
	n = prepared(t, d, id(2), true, each)
	if _, err := d.Bear(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	is, err := d.Rec.Load(t.Context(), n.ID)
	if chose, expandErr := d.Expand(t.Context(), &is); err != nil || expandErr != nil || !chose || is.Children.AtSeq != 7 {
		t.Errorf("chosen among no nodes: %v, %+v, %v, %v", chose, is.Children, err, expandErr)
	}
	if chose, err := d.Expand(t.Context(), &is); err != nil || chose {
		t.Errorf("chosen again: %v, %v", chose, err)
	}
}

// Many are placed at once and in order, as far as there is room; those with conditions of their own
// between them.
func TestSubmitAll(t *testing.T) {
	keyed := handler("q")
	keyed.Spec = &job.Spec{Handler: "h", Unique: job.Unique{Key: "k"}}
	later := handler("q")
	later.Delay = value.Duration(time.Hour)
	named := handler("q")
	named.ID = id(500)
	for what, c := range map[string]struct {
		of   []birth.Submission
		want int
		err  error
	}{
		"all that are plain":         {[]birth.Submission{handler("q"), handler("p"), later}, 3, nil},
		"a key and an id among them": {[]birth.Submission{handler("q"), keyed, handler("q"), named, {Job: "steps"}}, 5, nil},
		"one key twice":              {[]birth.Submission{handler("q"), keyed, keyed}, 2, new(events.Taken)},
		"as many as there is room":   {[]birth.Submission{handler("two"), handler("two"), handler("two")}, 2, queue.ErrFull},
		"none into a full queue":     {[]birth.Submission{handler("full")}, 0, queue.ErrFull},
		"another queue":              {[]birth.Submission{handler("one"), handler("q"), handler("two")}, 3, nil},
		"one that is wrong":          {[]birth.Submission{handler("q"), {}}, 0, desk.ErrInvalid},
	} {
		t.Run(what, func(t *testing.T) {
			d, s := newDesk(t)
			one := 1
			for _, name := range []string{"full", "one"} {
				if _, _, err := d.Rec.DoQueue(t.Context(), name, queue.Limit{Waiting: &one}); err != nil {
					t.Fatal(err)
				}
			}
			if err := submit(t, d, id(1000), handler("full")); err != nil {
				t.Fatal(err)
			}
			var told []task.ID
			err := d.SubmitAll(t.Context(), c.of, func(r desk.Receipt) { told = append(told, r.ID) })
			if taken := errors.As(c.err, new(*events.Taken)); len(told) != c.want || taken != errors.As(err, new(*events.Taken)) || !taken && !errors.Is(err, c.err) {
				t.Fatalf("%d are told of, %v; want %d, %v", len(told), err, c.want, c.err)
			}
			for i, id := range told {
				is, err := d.Rec.Load(t.Context(), id)
				if err != nil || is.State == task.Unknown || c.of[i].ID != "" && c.of[i].ID != id || c.of[i].Queue != "" && is.Route.Queue() != c.of[i].Queue {
					t.Errorf("place %d: told of %s: %s in %s, %v", i, id, is.State, is.Route, err)
				}
			}
			if armed, err := s.Armed(t.Context(), told); err != nil || what == "all that are plain" && len(armed) != 1 {
				t.Errorf("%d timers are armed, %v", len(armed), err)
			}
		})
	}
}

// Equal ones have neither an id nor a key.
func TestSubmitMany(t *testing.T) {
	d, s := newDesk(t)
	made := map[task.ID]bool{}
	if err := d.SubmitMany(t.Context(), handler("q"), 50, func(r desk.Receipt) { made[r.ID] = true }); err != nil || len(made) != 50 {
		t.Errorf("%d are made, %v", len(made), err)
	}
	before := len(s.All())
	keyed := handler("q")
	keyed.Unique = &job.Unique{Key: "k"}
	named := handler("q")
	named.ID = id(1)
	for what, of := range map[string]birth.Submission{"a key": keyed, "an id": named} {
		if err := d.SubmitMany(t.Context(), of, 2, nil); err == nil || len(s.All()) != before {
			t.Errorf("several with %s: %v", what, err)
		}
	}
}

// Children are made once by any number of makers, and a stranger under a child's id is found.
func TestBearChildren(t *testing.T) {
	d, s := newDesk(t)
	parent := func(n int, commands ...task.Command) task.Task {
		t.Helper()
		if _, err := d.Bear(t.Context(), prepared(t, d, id(n), true, birth.Submission{Job: "steps"})); err != nil {
			t.Fatal(err)
		}
		now, err := d.Rec.Load(t.Context(), id(n))
		for _, c := range slices.Concat([]task.Command{task.Expand{Children: task.Children{Names: []string{"a", "b"}}}}, commands) {
			if err == nil {
				now, _, err = d.Rec.Do(t.Context(), now, c)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	made := func(p *task.Task) (states []task.State) {
		for _, name := range []string{"a", "b"} {
			is, err := d.Rec.Load(t.Context(), birth.ChildID(p.ID, name))
			if err != nil && !errors.Is(err, task.ErrUnknown) {
				t.Fatal(err)
			}
			states = append(states, is.State)
		}
		return states
	}

	p := parent(1)
	for range 2 { // a client and a scheduler
		if err := d.BearChildren(t.Context(), &p, birth.Wanting(&p, nil)); err != nil {
			t.Fatal(err)
		}
		if got := made(&p); !slices.Equal(got, []task.State{task.Pending, task.Held}) {
			t.Errorf("its children are %v", got)
		}
	}
	if a, err := d.Rec.Load(t.Context(), birth.ChildID(p.ID, "a")); err != nil || a.Spec.Files.Bundle != "app@1" {
		t.Errorf("the files of a step are %+v, %v", a.Spec.Files, err)
	}

	strange := parent(2)
	forged := birth.Births(&strange)("b")
	forged.Params = json.RawMessage(`{"x":1}`)
	if _, err := d.Rec.Submit(t.Context(), birth.ChildID(strange.ID, "b"), forged); err != nil {
		t.Fatal(err)
	}
	if err := d.BearChildren(t.Context(), &strange, []string{"a", "b"}); !errors.Is(err, desk.ErrOther) {
		t.Errorf("with a stranger under the id of a child: %v", err)
	}

	for n, c := range map[int]struct {
		what     string
		commands []task.Command
	}{
		3: {"being cancelled", []task.Command{task.Cancel{}}},
		4: {"cancelled", []task.Command{task.Cancel{}, task.Conclude{State: task.Cancelled}}},
	} {
		p := parent(n, c.commands...)
		before := len(s.All())
		if err := d.BearChildren(t.Context(), &p, p.Children.Names); err != nil || len(s.All()) != before {
			t.Errorf("of a parent that is %s: %v, and %d are made", c.what, err, len(s.All())-before)
		}
	}
}

// Prepare looks up and pins in copies what a submission names, and refuses invalid submissions.
func TestPrepare(t *testing.T) {
	d, s := newDesk(t)
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := text(s.jobs)
	for what, c := range map[string]struct {
		of    birth.Submission
		files string
		err   error
	}{
		"files of the job":       {birth.Submission{Job: "j"}, "app@1 link", nil},
		"files of its own":       {birth.Submission{Job: "j", Files: &job.Files{Bundle: "app@1"}}, "app@1 link", nil},
		"files in its own way":   {birth.Submission{Job: "j", Files: &job.Files{Bundle: "app", Mode: job.FilesShared}}, "app@1 shared", nil},
		"files that are no more": {birth.Submission{Job: "j", Files: &job.Files{Bundle: "gone"}}, "", errNoFiles},
		"no job":                 {birth.Submission{Job: "none"}, "", errNoJob},
		"a missing parameter":    {birth.Submission{Job: "j", Unique: &job.Unique{Key: "{params.none}"}}, "", desk.ErrInvalid},
		"nothing to run":         {birth.Submission{}, "", desk.ErrInvalid},
	} {
		asked := text(c.of)
		n, err := d.Prepare(t.Context(), c.of)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", what, err)
		} else if err == nil && fmt.Sprint(n.Birth.Spec.Files.Bundle, " ", n.Birth.Spec.Files.Mode) != c.files {
			t.Errorf("%s: its files are %+v", what, n.Birth.Spec.Files)
		}
		if text(c.of) != asked || text(s.jobs) != before {
			t.Errorf("%s: what was asked for has changed", what)
		}
	}
}

// A copy has the files of the original, if they still exist.
func TestCopy(t *testing.T) {
	d, s := newDesk(t)
	if err := submit(t, d, id(1), birth.Submission{Job: "j"}); err != nil {
		t.Fatal(err)
	}
	s.files["app"] = "app@2"
	r, err := d.Copy(t.Context(), id(1), birth.Submission{})
	if err != nil {
		t.Fatal(err)
	}
	if is, err := d.Rec.Load(t.Context(), r.ID); err != nil || is.Spec.Files.Bundle != "app@1" || is.RetryOf != id(1) {
		t.Errorf("a copy is %+v, %v", is, err)
	}
	for what, over := range map[string]birth.Submission{"that runs something else": {Job: "j"}, "with an id": {ID: id(2)}} {
		if _, err := d.Copy(t.Context(), id(1), over); !errors.Is(err, desk.ErrInvalid) {
			t.Errorf("a copy %s: %v", what, err)
		}
	}
	if _, err := d.Copy(t.Context(), id(3), birth.Submission{}); !errors.Is(err, task.ErrUnknown) {
		t.Errorf("a copy of nothing: %v", err)
	}
	delete(s.files, "app@1")
	if _, err := d.Copy(t.Context(), id(1), birth.Submission{}); !errors.Is(err, errNoFiles) {
		t.Errorf("a copy of what has no files any more: %v", err)
	}
}

// A submitter that dies between its ledger entry and its births delays the others for five seconds,
// and takes no place.
func TestRoomOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk(t)
		if entry, err := d.Rec.ClaimKey(t.Context(), birth.RoomKey("two"), id(1), 0); err != nil || entry == 0 {
			t.Fatal(entry, err)
		}
		began := time.Now()
		for n := range 2 {
			if err := submit(t, d, id(2+n), handler("two")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("two that come later wait for %v together", took)
		}
		other := d.For(d.Rec) // it uses what the first desk has seen
		if err := submit(t, other, id(9), handler("two")); !errors.Is(err, queue.ErrFull) {
			t.Errorf("a third: %v", err)
		}
	})
}

// slow is a store that counts what waits only when it is told to.
type slow struct {
	store
	waiting int
	handed  uint64
}

func (s *slow) Waiting(context.Context, string, int) (waiting int, handed uint64, err error) {
	return s.waiting, s.handed, nil
}

// A NATS server counts what waits a moment after it has stored it. A desk counts what it has placed itself,
// less what has been handed out since.
func TestRoomThatIsCountedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, is := newDesk(t)
		late := &slow{store: is}
		d.Store = late
		next := 0
		tries := func(want int) {
			t.Helper()
			taken := 0
			for range 4 {
				next++
				if err := submit(t, d, id(next), handler("two")); err == nil {
					taken++
				} else if !errors.Is(err, queue.ErrFull) {
					t.Fatal(err)
				}
			}
			if taken != want {
				t.Errorf("%d are taken, want %d", taken, want)
			}
		}
		tries(2)
		late.handed = 1
		tries(1)
		late.handed = 0 // its consumer was made anew, and has handed out nothing
		late.waiting = 1
		tries(1)
		time.Sleep(6 * time.Second)
		late.waiting = 0
		tries(2)
	})
}

// No submission from outside may set a schedule, a tick or a parent.
func TestOutside(t *testing.T) {
	for what, s := range map[string]birth.Submission{
		"a schedule": {Origin: task.Origin{Schedule: "s"}}, "a tick": {Origin: task.Origin{Tick: time.UnixMilli(1)}},
		"a trigger": {Origin: task.Origin{Trigger: task.TriggerSchedule}}, "a parent": {Parent: id(1)},
		"the id of a child": {ID: birth.ChildID(id(1), "a")}, "no id": {ID: "x"},
	} {
		if err := desk.Outside(&s); !errors.Is(err, desk.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := desk.Outside(&birth.Submission{ID: id(1), Job: "j"}); err != nil {
		t.Error(err)
	}
}

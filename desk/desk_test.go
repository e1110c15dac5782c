package desk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/desk"
	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/family"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/unique"
	"millrace/task/value"
)

// store is a log in memory with jobs and files beside it.
type store struct {
	*events.Memory
	jobs  map[string]job.Job
	files map[string]string // the version that a name refers to
}

var errNoJob, errNoFiles = errors.New("no job"), errors.New("no files")

func (s store) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(i int, seq uint64, err error)) {
	if !first {
		s.Memory.PlaceAll(ctx, facts, first, done)
		return
	}
	for i, f := range facts {
		seq := uint64(0)
		records, err := s.Task(ctx, f.Task)
		if err == nil && events.Born(records) >= 0 {
			err = events.ErrConflict
		}
		if err == nil {
			seq, err = s.Place(ctx, f)
		}
		done(i, seq, err)
	}
}

func (s store) JobAt(_ context.Context, name string, _ uint64) (job.Job, uint64, error) {
	j, ok := s.jobs[name]
	if !ok {
		return j, 0, errNoJob
	}
	return j, 1, nil
}

func (s store) PinFiles(_ context.Context, f *job.Files) (*job.Files, error) {
	version, ok := s.files[f.Bundle]
	if !ok {
		return nil, errNoFiles
	}
	pinned := *f
	pinned.Bundle = version
	return &pinned, nil
}

func (s store) Waiting(_ context.Context, queue string, _ int) (n int, err error) {
	for _, r := range s.All() {
		if birth, ok := r.Fact.Event.(task.Submitted); ok && birth.QueueName() == queue {
			n++
		}
	}
	return n, nil
}

// newDesk returns a desk on a log in which queue "two" has room for two, with a job that has files.
func newDesk(t *testing.T) (*desk.Desk, store) {
	t.Helper()
	s := store{events.NewMemory(time.Now, time.Minute), map[string]job.Job{
		"j": {Name: "j", Spec: job.Spec{Run: &job.Run{Argv: []string{"x"}}, Files: &job.Files{Bundle: "app", Mode: job.FilesLink}}},
		"steps": {Name: "steps", Spec: job.Spec{Steps: []job.Step{
			{Name: "a", Spec: job.Spec{Run: &job.Run{Argv: []string{"x"}}, Files: &job.Files{Bundle: "app"}}},
			{Name: "b", Spec: job.Spec{Handler: "h", Signal: &job.Signal{}}},
		}}},
	}, map[string]string{"app": "app@1", "app@1": "app@1"}}
	d := &desk.Desk{Store: s, Rec: &events.Recorder{Log: s, Actor: "test", Now: time.Now, NewID: events.NewID}}
	two := 2
	if _, _, err := d.Rec.DoQueue(t.Context(), "two", queue.Limit{Waiting: &two}); err != nil {
		t.Fatal(err)
	}
	return d, s
}

func id(n int) task.ID { return task.ID(fmt.Sprintf("01HZ%022d", n)) }

// born returns the birth of a submission, with its job looked up.
func born(t *testing.T, d *desk.Desk, s birth.Submission) *task.Submitted {
	t.Helper()
	job, revision, err := d.Job(t.Context(), &s)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Make(t.Context(), s, job, revision)
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

func handler(queue string) birth.Submission {
	return birth.Submission{Spec: &job.Spec{Handler: "h"}, Queue: queue}
}

// A single birth meets each condition, under each kind of id.
func TestBear(t *testing.T) {
	keyed := handler("q")
	keyed.Spec = &job.Spec{Handler: "h", Unique: job.Unique{Key: "k"}}
	for kind, named := range map[string]bool{"drawn": false, "chosen": true, "derived": false} {
		t.Run(kind, func(t *testing.T) {
			d, s := newDesk(t)
			next := 0
			newborn := func(b *task.Submitted) *desk.Newborn {
				next++
				n := &desk.Newborn{ID: id(next), Birth: b, Named: named}
				if kind == "derived" {
					n.ID = family.ChildID(n.ID, "a")
				}
				return n
			}
			bear := func(n *desk.Newborn) error { _, err := d.Bear(t.Context(), n); return err }

			free := newborn(born(t, d, handler("q")))
			if err := bear(free); err != nil {
				t.Fatal(err)
			}
			if kind != "drawn" { // a drawn id is unique
				other := *free
				other.Birth = born(t, d, handler("elsewhere"))
				for _, n := range []*desk.Newborn{free, &other} {
					var there *events.Exists
					if err := bear(n); !errors.As(err, &there) || there.Task != free.ID {
						t.Errorf("a second one under its id: %v", err)
					} else if err := d.SameBirth(there, n.Birth); (err == nil) != (n == free) {
						t.Errorf("whether it is the same: %v", err)
					}
				}
			}

			var taken *events.Taken
			holder := newborn(born(t, d, keyed))
			if err := bear(holder); err != nil {
				t.Fatal(err)
			}
			second := newborn(born(t, d, keyed))
			if err := d.Refused(t.Context(), second.ID, second.Birth); !errors.As(err, &taken) {
				t.Errorf("asked before, with its key taken: %v", err)
			}
			if err := bear(second); !errors.As(err, &taken) || taken.Holder != holder.ID {
				t.Errorf("with its key taken: %v", err)
			}

			for range 2 {
				if err := bear(newborn(born(t, d, handler("two")))); err != nil {
					t.Fatal(err)
				}
			}
			third := newborn(born(t, d, handler("two")))
			if err := d.Refused(t.Context(), third.ID, third.Birth); !errors.Is(err, queue.ErrFull) {
				t.Errorf("asked before, into a full queue: %v", err)
			}
			before := len(s.All())
			if err := bear(third); !errors.Is(err, queue.ErrFull) || len(s.All()) != before {
				t.Errorf("into a full queue: %v, and %d records are written", err, len(s.All())-before)
			}
			later := handler("two")
			later.Delay = value.Duration(time.Hour)
			if err := bear(newborn(born(t, d, later))); err != nil {
				t.Errorf("one that does not wait there yet: %v", err)
			}
			needy := handler("two")
			needy.Needs = &task.Needs{Of: []task.Need{{Task: id(99)}}}
			held := newborn(born(t, d, needy))
			if err := bear(held); err != nil {
				t.Errorf("one that needs what is not there: %v", err)
			}
			if is, err := d.Rec.Load(t.Context(), held.ID); err != nil || is.State != task.Held {
				t.Errorf("it is %s, %v", is.State, err)
			}
		})
	}
}

// BearSome places many births at once, in order, as far as there is room, up to the first that has
// conditions of its own.
func TestBearSome(t *testing.T) {
	keyed := handler("q")
	keyed.Spec = &job.Spec{Handler: "h", Unique: job.Unique{Key: "k"}}
	later := handler("q")
	later.Delay = value.Duration(time.Hour)
	for what, c := range map[string]struct {
		of   []birth.Submission
		want int
		err  error
	}{
		"all that are plain":       {[]birth.Submission{handler("q"), handler("p"), later}, 3, nil},
		"up to a key":              {[]birth.Submission{handler("q"), keyed, handler("q")}, 1, nil},
		"as many as there is room": {[]birth.Submission{handler("two"), handler("two"), handler("two")}, 2, nil},
		"none into a full queue":   {[]birth.Submission{handler("full")}, 0, queue.ErrFull},
		"up to another queue":      {[]birth.Submission{handler("one"), handler("q")}, 1, nil},
	} {
		t.Run(what, func(t *testing.T) {
			d, s := newDesk(t)
			one := 1
			for _, name := range []string{"full", "one"} {
				if _, _, err := d.Rec.DoQueue(t.Context(), name, queue.Limit{Waiting: &one}); err != nil {
					t.Fatal(err)
				}
			}
			if c.err != nil {
				if _, err := d.Bear(t.Context(), &desk.Newborn{ID: id(1000), Birth: born(t, d, handler("full"))}); err != nil {
					t.Fatal(err)
				}
			}
			all := make([]desk.Newborn, len(c.of))
			for i, s := range c.of {
				all[i] = desk.Newborn{ID: id(i), Birth: born(t, d, s)}
			}
			var told []task.ID
			n, err := d.BearSome(t.Context(), len(all), func(i int) desk.Newborn { return all[i] }, func(id task.ID, _ uint64) { told = append(told, id) })
			if n != c.want || !errors.Is(err, c.err) || len(told) != n {
				t.Fatalf("%d are placed, %d told of, %v; want %d, %v", n, len(told), err, c.want, c.err)
			}
			for i, id := range told {
				is, err := d.Rec.Load(t.Context(), id)
				if id != all[i].ID || err != nil || is.State == task.Unknown {
					t.Errorf("place %d: told of %s, want %s: %s, %v", i, id, all[i].ID, is.State, err)
				}
			}
			if armed, err := s.Armed(t.Context(), told); err != nil || c.want == 3 && len(armed) != 1 {
				t.Errorf("%d timers are armed, %v", len(armed), err)
			}
		})
	}
}

// Children are made once by any number of makers, and a stranger under a child's id is found.
func TestBearChildren(t *testing.T) {
	d, s := newDesk(t)
	parent := func(n int, commands ...task.Command) task.Task {
		t.Helper()
		if _, err := d.Bear(t.Context(), &desk.Newborn{ID: id(n), Birth: born(t, d, birth.Submission{Job: "steps"})}); err != nil {
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
			is, err := d.Rec.Load(t.Context(), family.ChildID(p.ID, name))
			if err != nil && !errors.Is(err, task.ErrUnknown) {
				t.Fatal(err)
			}
			states = append(states, is.State)
		}
		return states
	}

	p := parent(1)
	for range 2 { // a client and a scheduler
		if err := d.BearChildren(t.Context(), &p, family.Wanting(&p, nil)); err != nil {
			t.Fatal(err)
		}
		if got := made(&p); !slices.Equal(got, []task.State{task.Pending, task.Held}) {
			t.Errorf("its children are %v", got)
		}
	}
	if a, err := d.Rec.Load(t.Context(), family.ChildID(p.ID, "a")); err != nil || a.Spec.Files.Bundle != "app@1" {
		t.Errorf("the files of a step are %+v, %v", a.Spec.Files, err)
	}

	strange := parent(2)
	forged := family.Births(&strange)("b")
	forged.Params = json.RawMessage(`{"x":1}`)
	if _, err := d.Rec.Submit(t.Context(), family.ChildID(strange.ID, "b"), forged); err != nil {
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

// Make looks up and pins in copies what a submission names, and refuses invalid submissions.
func TestMake(t *testing.T) {
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
		var b task.Submitted
		asked := text(c.of)
		job, revision, err := d.Job(t.Context(), &c.of)
		if err == nil {
			b, err = d.Make(t.Context(), c.of, job, revision)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", what, err)
		} else if err == nil && fmt.Sprint(b.Spec.Files.Bundle, " ", b.Spec.Files.Mode) != c.files {
			t.Errorf("%s: its files are %+v", what, b.Spec.Files)
		}
		if text(c.of) != asked || text(s.jobs) != before {
			t.Errorf("%s: what was asked for has changed", what)
		}
	}
}

// A copy has the files of the original, if they still exist.
func TestCopy(t *testing.T) {
	d, s := newDesk(t)
	if _, err := d.Bear(t.Context(), &desk.Newborn{ID: id(1), Birth: born(t, d, birth.Submission{Job: "j"})}); err != nil {
		t.Fatal(err)
	}
	of, err := d.Rec.Load(t.Context(), id(1))
	if err != nil {
		t.Fatal(err)
	}
	s.files["app"] = "app@2"
	if b, err := d.Copy(t.Context(), of, birth.Submission{}); err != nil || b.Spec.Files.Bundle != "app@1" || b.RetryOf != of.ID {
		t.Errorf("a copy is %+v, %v", b, err)
	}
	if _, err := d.Copy(t.Context(), of, birth.Submission{Job: "j"}); !errors.Is(err, desk.ErrInvalid) {
		t.Errorf("a copy that runs something else: %v", err)
	}
	delete(s.files, "app@1")
	if _, err := d.Copy(t.Context(), of, birth.Submission{}); !errors.Is(err, errNoFiles) {
		t.Errorf("a copy of what has no files any more: %v", err)
	}
}

// A submitter that dies between its ledger entry and its births delays the others for two seconds,
// and takes no place.
func TestRoomOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk(t)
		if entry, err := d.Rec.Claim(t.Context(), unique.RoomKey("two"), id(1), 0); err != nil || entry == 0 {
			t.Fatal(entry, err)
		}
		began := time.Now()
		for n := range 2 {
			if _, err := d.Bear(t.Context(), &desk.Newborn{ID: id(2 + n), Birth: born(t, d, handler("two"))}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("two that come later wait for %v together", took)
		}
		other := d.For(d.Store, d.Rec) // it uses what the first desk has seen
		if _, err := other.Bear(t.Context(), &desk.Newborn{ID: id(9), Birth: born(t, d, handler("two"))}); !errors.Is(err, queue.ErrFull) {
			t.Errorf("a third: %v", err)
		}
	})
}

// No submission from outside may set a schedule, a tick or a parent.
func TestOutside(t *testing.T) {
	for what, s := range map[string]birth.Submission{
		"a schedule": {Origin: task.Origin{Schedule: "s"}}, "a tick": {Origin: task.Origin{Tick: time.UnixMilli(1)}},
		"a trigger": {Origin: task.Origin{Trigger: task.TriggerSchedule}}, "a parent": {Parent: id(1)},
		"the id of a child": {ID: family.ChildID(id(1), "a")}, "no id": {ID: "x"},
	} {
		if err := desk.Outside(&s); !errors.Is(err, desk.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := desk.Outside(&birth.Submission{ID: id(1), Job: "j"}); err != nil {
		t.Error(err)
	}
}

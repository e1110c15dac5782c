package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/submit"
	views "millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/triggers"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/quota"
	"millrace/task/schedule"
	"millrace/task/value"
)

// followers are the jobs of histories in which ends make tasks.
var followers = func() map[string]*job.Job {
	all := map[string]*job.Job{}
	for name, on := range map[string]*job.Handlers{
		"extract": nil, "load": {Job: "extract", Ends: job.Ends}, "alarm": {Job: "extract", Ends: job.Ends, When: `payload.state == "error"`}, "tell": {Job: "load"},
	} {
		j := &job.Job{Name: name, Spec: job.Spec{Handler: "work", On: on}}
		j.Timeout.Run = value.Duration(4 * time.Second)
		all[name] = j
	}
	return all
}()

// followed is a job of them, with its revision; nil for "".
func followed(name string) (*job.Job, uint64) {
	if name == "" {
		return nil, 0
	}
	return followers[name], 1
}

// define stores the jobs, long before the history begins.
func (h *history) define() {
	for _, name := range []string{"extract", "load", "alarm", "tell"} {
		text, err := json.Marshal(followers[name])
		if err == nil {
			is := task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: text, Digest: task.DigestOf(text)}}
			_, err = h.mem.Append(context.Background(), &events.Fact{ID: h.newID(h.began), At: h.began.Add(-time.Hour), Type: events.DefinitionApplied, Def: task.Named(task.DefJob, name), Event: is}, 0)
		}
		if err != nil {
			panic(err)
		}
	}
}

// startFollowing begins a server that makes the tasks which follow from ends. All of them act as if they went first.
func (h *history) startFollowing(name string, mortal bool) {
	h.start(name, mortal, func(a *actor) {
		v := h.view(a)
		w := &triggers.Watch{Maker: &submit.Maker{Store: followedStore{}, Rec: h.recorder(a, name)}, Every: time.Second, Log: slog.New(slog.DiscardHandler)}
		w.Look = func(ctx context.Context, look func(context.Context, *answers.Sight) error) error {
			a.turn("wakes", time.Now()) // a timer woke it, beside the simulator, whose dice it may not throw before its turn
			a.turn("waits", h.in(time.Second))
			a.setClock(false)
			if err := v.ask("look at what has ended"); err != nil {
				return err
			}
			is := present{view: v}
			return look(ctx, &answers.Sight{View: is, Sums: is, Log: is, Point: views.Point{Seq: v.Seq()}, Last: v.Seq(), Now: a.now()})
		}
		_ = w.Run(context.Background())
	})
}

// followedStore has the jobs for those who make tasks.
type followedStore struct{ submit.Store }

func (followedStore) JobAt(_ context.Context, name string, _ uint64) (job.Job, uint64, error) {
	of, revision := followed(name)
	return *of, revision, nil
}

func (followedStore) PinFiles(_ context.Context, f *job.Files) (*job.Files, error) { return f, nil }

func (followedStore) DeclareAll(context.Context, []*task.Work, string) error { return nil }

// present is what a server sees: the log as far as its read model has it.
type present struct {
	*view
	answers.Log
}

func (p present) records() []events.Record { return p.h.records[:p.Seq()] }

func (p present) Get(_ context.Context, ref views.Ref) (views.Item, error) {
	t := p.Task(task.ID(ref.ID))
	if t == nil {
		return views.Item{}, task.ErrUnknown
	}
	is := *t
	return views.Item{Task: &is}, nil
}

func (p present) Records(_ context.Context, ref views.Ref, _ views.Range, each func(*events.Record) error) error {
	for i := range p.records() {
		if r := &p.h.records[i]; views.RefOf(r) == ref {
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (present) Standing(context.Context, task.ID, int) (*quota.Standing, error) { return nil, nil }

func (p present) Traces(_ context.Context, c views.Trace, beyond uint64, most int) (seqs []uint64, err error) {
	for i := int(beyond); i < len(p.records()) && len(seqs) < most; i++ {
		if r := &p.h.records[i]; slices.Contains(c.Types, string(r.Fact.Type)) {
			seqs = append(seqs, r.Seq)
		}
	}
	return seqs, nil
}

func (p present) Messages(_ context.Context, seqs []uint64) (found []events.Record, err error) {
	for _, seq := range seqs {
		found = append(found, p.h.records[seq-1])
	}
	return found, nil
}

func (p present) Page(_ context.Context, from uint64, most int) ([]events.Record, error) {
	all := p.records()
	return all[min(int(from)-1, len(all)):min(int(from)-1+most, len(all))], nil
}

func (present) PointAt(context.Context, views.Moment) (views.Point, bool, error) {
	return views.Point{}, false, nil
}

// followed tells whether each end has made its tasks, and nothing else has made one.
func (h *history) followed() error {
	want := map[task.ID]string{}
	for id, s := range h.stories {
		t := task.Task{ID: id}
		for i := range s {
			r := &s[i]
			was := t.State
			if t = task.Evolve(t, r.Task()); was.Terminal() || !t.State.Terminal() {
				continue
			}
			by := task.Origin{Trigger: task.TriggerEnd, Tick: r.Task().At, After: id, Ended: r.Seq}
			for name, of := range followers {
				if of.On.After() == t.Job && of.On.Counts(t.State.String()) && (name != "alarm" || t.State == task.Error) {
					want[schedule.FollowingID(name, &by)] = fmt.Sprintf("%s, after the end of %s at %d", name, short(id), r.Seq)
				}
			}
		}
	}
	for id, t := range h.fold.tasks {
		if t.After == "" {
			continue
		}
		if want[id] == "" {
			return fmt.Errorf("task %s of %s follows from no end: it names %s at %d", short(id), t.Job, short(t.After), t.Ended)
		}
		delete(want, id)
	}
	for id, what := range want {
		return fmt.Errorf("there is no task %s of %s", short(id), what)
	}
	return nil
}

// Each end of a task makes one task of each job that follows it, and those make others, whatever is killed or lost
// between an end and a birth. Tasks that are tried again end again, and are followed again. Verify finds nothing.
func TestSimulationOfFollowers(t *testing.T) {
	var made, again atomic.Int64
	each(max(*historiesFlag/5, 1), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, variant{follows: true})
		h.report(t)
		for _, f := range h.whole(t).Findings {
			t.Errorf("seed %d of followers: %v: task %s, %v: %s", seed, f.Rule, f.Task, f.Seqs, f.What)
		}
		after := map[string]int{}
		for _, is := range h.fold.tasks {
			if is.After != "" {
				made.Add(1)
				if after[is.Job+string(is.After)]++; after[is.Job+string(is.After)] == 2 {
					again.Add(1)
				}
			}
		}
		return !t.Failed()
	})
	t.Logf("%d tasks follow from ends, %d times from another end of the same task", made.Load(), again.Load())
	if *seedFlag < 0 && (made.Load() == 0 || again.Load() == 0) {
		t.Error("nothing follows, or nothing that has been tried again")
	}
}

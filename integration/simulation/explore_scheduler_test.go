package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/whatif"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
)

// schedule is the life of a scheduler, which follows a parent and admits what limits hold. It looks
// again when there is something new, and its read model has then all that the log has.
func (p *place) schedule(r *resident) {
	ctx := context.Background()
	model := whatif.NewReadModel()
	s := scheduler.New(coarse{&port{p.mem, r.actor}}, model, nil, scheduler.Config{
		Settings: bounds, Limits: model, Refusing: 1, Flap: node.FlapPolicy{Limit: -1}, Now: func() time.Time { return p.now },
	})
	model.Asked = func(string) error {
		for _, is := range p.mem.All() {
			if is.Seq > model.Seq() {
				s.Observe([]events.Step{model.Step(&is)})
			}
		}
		return nil
	}
	for {
		r.seen = nil
		r.turn("looks", time.Time{})
		r.looked, _ = p.mem.Last(ctx)
		p.must(nil, model.Asked(""))
		if p.family {
			_ = s.Follow(ctx, taskID(1)) // the next look tries again
		}
		if p.limited > 0 {
			_, _ = s.Admit(ctx)
		}
	}
}

// news tells whether the log has something that a scheduler has not looked at.
func (p *place) news(r *resident) bool {
	last, err := p.mem.Last(context.Background())
	p.must(nil, err)
	return last > r.looked
}

// looking tells whether a scheduler is in the midst of a look. It does not take as long as the log keeps
// what has ended.
func (p *place) looking() bool {
	return slices.ContainsFunc(p.actors, func(r *resident) bool {
		return strings.HasPrefix(r.name, "scheduler") && r.pending.op != "looks"
	})
}

// family is a parent with one step.
func family() *job.Spec {
	return &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "work"}}}}
}

// child is the step of the first task.
var child = birth.ChildID(taskID(1), "a")

// bear makes the step of the first task, as its submitter does.
func (p *place) bear(rec *events.Recorder) {
	t, err := rec.Load(context.Background(), taskID(1))
	p.must(nil, err)
	p.must(rec.Submit(context.Background(), child, birth.Births(&t)("a")))
}

// keepsFamily checks that the log has the step of a parent that is open.
func (p *place) keepsFamily() error {
	if !p.family || p.first <= 1 {
		return nil
	}
	if err := p.remembers(child, p.story(child)); err != nil {
		return err
	}
	of := func(id task.ID) task.Task {
		records, err := p.mem.Task(context.Background(), id)
		p.must(nil, err)
		return events.FoldTask(id, records)
	}
	if parent, step := of(taskID(1)), of(child); parent.Spec != nil && !parent.State.Terminal() && step.Spec == nil {
		return broken(errForgets, "its parent is %s, and the step is gone", parent.State)
	}
	return nil
}

// withinLimit checks that no two tasks run under a limit of one.
func (p *place) withinLimit() error {
	if p.limited == 0 {
		return nil
	}
	live := 0
	for i := range p.tasks {
		if t := events.FoldTask(taskID(i+1), p.story(taskID(i+1))); t.Live() {
			live++
		}
	}
	if live > 1 {
		return fmt.Errorf("%w: %d tasks run", errI4, live)
	}
	return nil
}

// adopt goes on with the attempt that the session before has left, and tells whether it is this one's.
func (p *place) adopt(r *resident, left *stay) bool {
	ctx := context.Background()
	rec := p.recorder(&port{p.mem, r.actor})
	t, err := rec.Load(ctx, left.task.ID)
	asked := p.now
	if err == nil && asked.Before(left.stops()) {
		t, _, err = rec.Do(ctx, t, task.Adopt{Epoch: left.task.Epoch, Node: string(r.node), Session: r.session, PID: 1})
	}
	p.runs = slices.DeleteFunc(p.runs, func(o *stay) bool { return o == left })
	if err != nil || t.Session != r.session {
		return false // the process was stopped
	}
	offer := *left.offer
	offer.Lease = &lease{Lease: offer.Lease.(*lease).Lease, port: &port{p.mem, r.actor}, offer: &offer}
	r.run = &stay{run{task: t, began: left.began, confirmed: asked, beaten: asked, offer: &offer}, r}
	return true
}

// orphaning shows no parents.
type orphaning struct{ frontLog }

func (l orphaning) Follow(ctx context.Context, from uint64) (events.Feed, error) {
	feed, err := l.frontLog.Follow(ctx, from)
	return orphans{feed}, err
}

type orphans struct{ events.Feed }

func (f orphans) Next(ctx context.Context) ([]events.Record, error) {
	records, err := f.Feed.Next(ctx)
	for i := range records {
		if e, ok := records[i].Fact.Event.(task.Submitted); ok {
			e.Parent = ""
			records[i].Fact.Event = e
		}
	}
	return records, err
}

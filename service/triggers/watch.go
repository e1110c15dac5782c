package triggers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/submit"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/condition"
	"millrace/task/job"
	"millrace/task/schedule"
)

// Watch makes the tasks that follow from the ends of others. Of several servers the one that goes first does;
// another one that takes its place begins with what has ended within a day, and makes nothing twice.
type Watch struct {
	// Look lets it look at the present.
	Look func(ctx context.Context, look func(context.Context, *answers.Sight) error) error
	// Maker makes the tasks.
	Maker *submit.Maker
	// First tells whether this server goes first. Default: it does.
	First func() bool
	// Every is the interval of looks. Default 500ms.
	Every time.Duration
	Log   *slog.Logger

	jobs    known
	follow  map[string]*follower // by the name of the job
	reached uint64               // up to where the ends are followed
}

// follower is a job whose tasks follow from the ends of another one's.
type follower struct {
	*job.Job
	since time.Time // ends before that make no task: the job did not follow them, as far as this server knows
	told  uint64    // up to which fact the ends are dealt with
}

const (
	// lookBack is how old an end is at most that a server still follows which did not see it happen.
	lookBack = 24 * time.Hour
	// page is how many facts are looked at together.
	page = 500
)

// endTypes are the facts that may end a task.
var endTypes = []string{
	string(events.AttemptFinished), string(events.AttemptFailed), string(events.TaskCancelled), string(events.TaskAbnormal), string(events.TaskConcluded),
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	answers.Again(ctx, cmp.Or(w.Every, 500*time.Millisecond), w.Log, "the ends of jobs cannot be followed; trying again", func(ctx context.Context) error {
		if w.First != nil && !w.First() {
			return nil
		}
		return w.Look(ctx, w.look)
	})
	return nil
}

// look follows what has ended since the last look.
func (w *Watch) look(ctx context.Context, s *answers.Sight) error {
	index, ok := s.Sums.(answers.Tracer)
	if !ok || s.Point.Seq == w.reached {
		return nil
	}
	changed, err := w.jobs.read(ctx, s)
	if err != nil {
		return err
	}
	if changed {
		w.choose()
	}
	var faults []error
	for _, f := range w.follow { // one whose queue is full keeps no other from its turn
		faults = append(faults, w.ends(ctx, s, index, f))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	w.reached = s.Point.Seq
	return nil
}

// known are the jobs as they were at the last look.
type known struct {
	all     []definitions.StoredJob
	partly  bool   // some cannot be read at present
	reached uint64 // where the read model was
}

// read reads the jobs if a definition has changed since the last look, and tells whether it has.
func (k *known) read(ctx context.Context, s *answers.Sight) (changed bool, err error) {
	index, ok := s.Sums.(answers.Tracer)
	if !ok || s.Point.Seq == k.reached {
		return false, nil
	}
	since, err := index.Traces(ctx, view.Trace{Types: []string{string(events.DefinitionApplied), string(events.DefinitionRemoved)}, OldestFirst: true}, k.reached, 1)
	if err != nil {
		return false, err
	}
	if changed = k.reached == 0 || len(since) > 0; changed { // at first what the log has forgotten counts, too
		all, err := client.JobsOf(ctx, s.View)
		if err != nil && !errors.Is(err, definitions.ErrBadJob) {
			return false, err
		}
		k.all, k.partly = all, err != nil
	}
	k.reached = s.Point.Seq
	return changed, nil
}

// choose finds out which jobs follow others.
func (w *Watch) choose() {
	watches := map[string]string{}
	for i := range w.jobs.all {
		watches[w.jobs.all[i].Name] = w.jobs.all[i].On.After()
	}
	before := w.follow
	w.follow = map[string]*follower{}
	for i := range w.jobs.all {
		j := &w.jobs.all[i]
		of := watches[j.Name]
		if of == "" {
			continue
		}
		if circle, _ := job.Circle(j.Name, func(name string) (string, error) { return watches[name], nil }); circle != nil {
			w.Log.Warn("a job follows its own ends, through others; they make no task of it", "job", j.Name, "after", of)
			continue
		}
		f := &follower{Job: &j.Job, since: j.Changed}
		if was := before[j.Name]; was != nil && was.On.After() == of {
			f.since, f.told = was.since, was.told
		}
		w.follow[j.Name] = f
	}
}

// ends makes the tasks of a job that follow from the ends of another one's.
func (w *Watch) ends(ctx context.Context, s *answers.Sight, index answers.Tracer, f *follower) error {
	if f.told == 0 {
		at, _, err := s.Log.PointAt(ctx, view.Moment{At: s.Now.Add(-lookBack)})
		if err != nil {
			return err
		}
		f.told = max(at.Seq, 1)
	}
	for {
		seqs, err := index.Traces(ctx, view.Trace{Types: endTypes, Job: f.On.Job, OldestFirst: true}, f.told, page)
		if err != nil {
			return err
		}
		seqs = slices.DeleteFunc(seqs, func(seq uint64) bool { return seq > s.Point.Seq })
		records, err := answers.RecordsAt(ctx, s.Log, seqs)
		if err != nil {
			return err
		}
		for i := range records {
			if err := w.end(ctx, s, &records[i], f); err != nil {
				return fmt.Errorf("a task of job %s is to follow from what is at %d: %w", f.Name, records[i].Seq, err)
			}
			f.told = records[i].Seq
		}
		if len(seqs) < page {
			return nil
		}
		f.told = seqs[len(seqs)-1]
	}
}

// end makes the task of a job that follows from a fact, if that ended a task of the job whose ends it follows.
func (w *Watch) end(ctx context.Context, s *answers.Sight, r *events.Record, f *follower) error {
	by := task.Origin{Trigger: task.TriggerEnd, Tick: r.Task().At, After: r.Fact.Task, Ended: r.Seq}
	if !by.Tick.After(f.since) {
		return nil
	}
	if there, err := s.Get(ctx, view.Task(schedule.FollowingID(f.Name, &by))); err == nil && there.Task != nil {
		return nil
	}
	t, ended, err := endedBy(ctx, s.View, r)
	if err != nil || !ended || t.Job != f.On.Job || t.Parent != "" || !f.On.Counts(t.State.String()) {
		return err
	}
	made, err := Following(f.Job, &t, by)
	_, err = submitted(ctx, w.Maker, made, err)
	if settled(w.Log, err, "the end of another one", "job", f.Name, "after", string(t.ID)) {
		return nil
	}
	return err
}

// endedBy returns the task of a fact as the fact left it, and whether that ended it.
func endedBy(ctx context.Context, v view.View, r *events.Record) (t task.Task, ended bool, err error) {
	records, err := view.All(ctx, v, view.Task(r.Fact.Task))
	if errors.Is(err, task.ErrUnknown) {
		return t, false, nil
	}
	records = slices.DeleteFunc(records, func(is events.Record) bool { return is.Seq > r.Seq })
	if err != nil || len(records) == 0 || records[len(records)-1].Seq != r.Seq {
		return t, false, err
	}
	before := events.FoldTask(r.Fact.Task, records[:len(records)-1])
	t = events.FoldTask(r.Fact.Task, records)
	return t, t.State.Terminal() && !before.State.Terminal(), nil
}

// Following is the submission of a job that follows from the end of a task.
func Following(of *job.Job, t *task.Task, by task.Origin) (birth.Submission, error) {
	text, err := json.Marshal(struct {
		Task    task.ID         `json:"task"`
		Job     string          `json:"job"`
		State   string          `json:"state"`
		Reason  string          `json:"reason,omitempty"`
		Message string          `json:"message,omitempty"`
		Result  json.RawMessage `json:"result,omitempty"`
	}{t.ID, t.Job, t.State.String(), t.Reason, strings.ToValidUTF8(t.Message, "?"), t.Result})
	if err != nil {
		return birth.Submission{}, err
	}
	s, err := condition.Triggered(of, text, condition.Message{})
	s.ID, s.Origin = schedule.FollowingID(of.Name, &by), by
	return s, err
}

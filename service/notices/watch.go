package notices

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/submit"
	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// Watch plans notices and makes their tasks. Of several servers the one that goes first does, and the others
// take over from where it was, for a task that is there already is not made again.
type Watch struct {
	Config *Config
	// Look lets it look at the present.
	Look func(ctx context.Context, look func(context.Context, *answers.Sight) error) error
	// Maker makes the tasks.
	Maker *submit.Maker
	// First tells whether this server goes first. Default: it does.
	First func() bool
	// Position is a file that holds up to which sequence of the log failures are told. If there is none, as
	// when the setting is new, it begins at the end of the log.
	Position string
	// Every is the interval of looks at failures; what needs a person is looked at every fifth time. Default 1s.
	Every time.Duration
	Log   *slog.Logger

	plans   *planner
	told    uint64 // failures up to this sequence are planned
	saved   uint64 // what the file has
	reached uint64 // what the read model had reached at the last look
	rounds  int
	// leading tells that this server goes first, since when its position was at since. failing are what makes tasks
	// and whose last known failure has no success after it.
	leading bool
	since   uint64
	failing map[origin]time.Time
	behind  behind
	warned  map[string]bool
}

// origin is what makes tasks again and again: a job, or a schedule of a command.
type origin struct{ job, schedule string }

func originOf(t *task.Task) origin {
	if t.Job != "" {
		return origin{job: t.Job}
	}
	return origin{schedule: t.Schedule}
}

// behind is where a server begins that did not go first: as far back as another one may have seen and not told.
type behind struct {
	old, new uint64
	since    time.Time
}

const (
	// saving is after how many looks the position is stored: what comes twice makes nothing twice.
	saving = 5
	// aheadFor is within what time another server makes a notice of what it has seen.
	aheadFor = 2 * time.Minute
	// news is how old a failure may be that is told.
	news = 24 * time.Hour
	// mostFailing is how many jobs and schedules are watched for a success.
	mostFailing = 200
	// mostFailed is how many failures a look takes in.
	mostFailed = 20_000
)

// Run looks and plans until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	w.plans, w.warned = newPlanner(w.Config), map[string]bool{}
	answers.Again(ctx, cmp.Or(w.Every, time.Second), w.Log, "notices cannot be planned; trying again", func(ctx context.Context) error { return w.Look(ctx, w.look) })
	return nil
}

// look makes the notices of what has happened since the last look.
func (w *Watch) look(ctx context.Context, s *answers.Sight) error {
	if w.told == 0 {
		if err := w.begin(s); err != nil {
			return err
		}
	}
	if w.First != nil && !w.First() {
		w.leading = false
		return w.follow(s)
	}
	if !w.leading {
		if err := w.lead(ctx, s); err != nil {
			return err
		}
	}
	var all []Happening
	if s.Point.Seq != w.reached {
		failures, err := w.failures(ctx, s)
		if err != nil {
			return err
		}
		all = failures
	}
	if w.rounds%saving == 0 {
		needs, err := w.matters(ctx, s)
		if err != nil {
			return err
		}
		recovered, err := w.recoveries(ctx, s)
		if err != nil {
			return err
		}
		all = append(append(all, needs...), recovered...)
	}
	if err := w.tell(ctx, s, all); err != nil {
		return err
	}
	w.rounds++
	w.reached = s.Point.Seq
	if w.told = max(w.told, w.reached); w.rounds%saving != 0 || w.told == w.saved {
		return nil
	}
	return w.save()
}

// begin finds where an earlier process was.
func (w *Watch) begin(s *answers.Sight) error {
	data, err := os.ReadFile(w.Position)
	if err == nil {
		w.told, err = strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.Log.Warn("where notices were is unknown; they go on from the end of the log", "error", value.Plainly(err))
	}
	if err == nil && w.told <= s.Last {
		return nil
	}
	w.told = max(s.Last, 1)
	return w.save()
}

// follow keeps a server that does not go first ready to.
func (w *Watch) follow(s *answers.Sight) error {
	b := &w.behind
	if s.Now.Sub(b.since) <= aheadFor {
		return nil
	}
	b.old, b.new, b.since = b.new, s.Point.Seq, s.Now
	if b.old <= w.told {
		return nil
	}
	w.told = b.old
	return w.save()
}

// lead finds which jobs fail, for a server that goes first from now on.
func (w *Watch) lead(ctx context.Context, s *answers.Sight) error {
	failed, err := lastFailed(ctx, s, mostFailed/20, func(*task.Task) bool { return false })
	w.leading, w.since, w.failing, w.reached = err == nil, w.told, map[origin]time.Time{}, 0
	for i := range failed {
		w.fails(&failed[i])
	}
	return err
}

// save stores the position.
func (w *Watch) save() error {
	w.saved = w.told
	return files.Write(w.Position, []byte(strconv.FormatUint(w.told, 10)+"\n"))
}

// tells tells whether the failure of a task is told: that of a step is its parent's, and that of a notice is
// in the list of dead letters.
func tells(t *task.Task) bool { return t.Parent == "" && t.QueueName() != job.NoticeQueue }

// lastFailed returns the tasks that failed last, the last one first, down to one that is old, at most most.
func lastFailed(ctx context.Context, s *answers.Sight, most int, old func(*task.Task) bool) ([]task.Task, error) {
	log, ok := s.Sums.(answers.Tracer)
	if !ok {
		return nil, nil
	}
	for n := 64; ; n *= 8 {
		failed, err := log.LastFailed(ctx, min(n, most))
		if err != nil || len(failed) < n || n >= most || old(&failed[len(failed)-1]) {
			return failed, err
		}
	}
}

// fails notes that a job, or a schedule of a command, fails.
func (w *Watch) fails(t *task.Task) {
	of := originOf(t)
	if of != (origin{}) && tells(t) && (len(w.failing) < mostFailing || !w.failing[of].IsZero()) {
		w.failing[of] = value.Later(w.failing[of], t.EndedAt)
	}
}

func (w *Watch) failures(ctx context.Context, s *answers.Sight) (all []Happening, err error) {
	failed, err := lastFailed(ctx, s, mostFailed, func(t *task.Task) bool { return t.Seq <= w.told })
	if len(failed) == mostFailed {
		w.Log.Warn("more tasks have failed since the last look than notices look at; of the earliest no cause is told by itself", "looked at", mostFailed)
	}
	for i := len(failed) - 1; i >= 0; i-- {
		t := &failed[i]
		if t.Seq <= w.told || !tells(t) || s.Now.Sub(t.EndedAt) > news {
			continue
		}
		w.fails(t)
		cause := view.Alike(t.Message)
		all = append(all, Happening{
			Kind: Failure, Group: strings.Join([]string{t.What(), t.Reason, cause}, "\x00"), At: t.EndedAt, Job: t.Job, Queue: t.QueueName(), Schedule: t.Schedule,
			Notice: Notice{About: t.What(), Task: t.ID, Reason: t.Reason, Cause: cause},
		})
	}
	return all, err
}

// recoveries are the successes of what failed.
func (w *Watch) recoveries(ctx context.Context, s *answers.Sight) (all []Happening, err error) {
	for of, since := range w.failing {
		page, err := s.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Job: of.job, Schedule: of.schedule, States: []task.State{task.Finished}, Roots: true, Limit: 1}})
		if err != nil {
			return nil, err
		}
		if len(page.Tasks) == 0 || !page.Tasks[0].EndedAt.After(since) || originOf(&page.Tasks[0]) != of {
			continue // a schedule that now makes tasks of a job says nothing of its command
		}
		t := &page.Tasks[0]
		delete(w.failing, of)
		if t.Seq > w.since && s.Now.Sub(t.EndedAt) < news {
			all = append(all, Happening{Kind: Recovery, Group: cmp.Or(of.job, "schedule "+of.schedule), At: t.EndedAt, Job: of.job, Queue: t.QueueName(), Schedule: t.Schedule,
				Notice: Notice{About: t.What(), Task: t.ID}})
		}
	}
	return all, nil
}

// kindOf is the kind of notice of a matter that needs a person; those of the others are told otherwise, or not.
var kindOf = map[string]string{
	client.MatterApproval: Waiting, client.MatterOverdue: Overdue, client.MatterNode: Node, client.MatterBreaker: Breaker,
	client.MatterUnserved: Queue, client.MatterSchedule: Missed, client.MatterTrigger: Missed, client.MatterHeldFront: Horizon,
}

// matters are what needs a person.
func (w *Watch) matters(ctx context.Context, s *answers.Sight) (all []Happening, err error) {
	needs, err := s.Matters(ctx)
	if err != nil {
		return nil, err
	}
	for i := range needs.Matters {
		m := &needs.Matters[i]
		h := Happening{Kind: kindOf[m.Kind], Group: m.ID, At: m.Since, Now: s.Now, Notice: Notice{About: m.ID, What: m.What}}
		if h.At.IsZero() { // it has no beginning, and is told once a day
			h.At = s.Now.UTC().Truncate(24 * time.Hour)
		}
		switch h.Kind {
		case "":
			continue
		case Waiting, Overdue:
			is, err := s.Get(ctx, view.Task(task.ID(m.ID)))
			if err != nil {
				return nil, err
			}
			t := is.Task
			if t == nil {
				continue // the log has just forgotten it
			}
			h.Job, h.Queue, h.Schedule, h.Task, h.About = t.Job, t.QueueName(), t.Schedule, t.ID, t.What()
			if h.Queue == job.NoticeQueue {
				continue
			}
			if signal := t.Signal(); h.Kind == Waiting && signal != nil {
				h.Remind = signal.Remind
			}
		case Breaker:
			h.Job = m.ID
		case Missed:
			if h.Job = cmp.Or(m.Of, m.ID); m.Kind == client.MatterSchedule {
				h.Schedule = m.ID
			}
		case Queue:
			if h.Queue = m.ID; h.Queue == job.NoticeQueue {
				continue
			}
		case Horizon:
			h.Task = task.ID(m.ID)
		}
		all = append(all, h)
	}
	return all, nil
}

// tell makes the tasks of the notices of what has happened.
func (w *Watch) tell(ctx context.Context, s *answers.Sight, all []Happening) error {
	if len(all) == 0 {
		return nil
	}
	jobs, err := client.JobsOf(ctx, s.View)
	if err != nil && len(jobs) == 0 && !errors.Is(err, definitions.ErrBadJob) {
		return err
	}
	settings, err := s.List(ctx, view.Query{Kind: view.Queues})
	if err != nil {
		return err
	}
	own, queues, schedules := map[string]*job.Job{}, map[string][]job.Notify{}, map[string][]job.Notify{}
	for i := range settings.Queues {
		queues[settings.Queues[i].Name] = settings.Queues[i].Notify
	}
	for i := range jobs {
		own[jobs[i].Name] = &jobs[i].Job
	}
	if slices.ContainsFunc(all, func(h Happening) bool { return h.Schedule != "" }) {
		stored, err := client.SchedulesOf(ctx, s.View)
		if err != nil && len(stored) == 0 && !errors.Is(err, definitions.ErrBadSchedule) {
			return err
		}
		for i := range stored {
			schedules[stored[i].Name] = stored[i].Notify
		}
	}
	for i := range all {
		h := &all[i]
		if of := own[h.Job]; of != nil {
			h.Own = of.Notify
			if h.Queue == "" {
				h.Queue = cmp.Or(of.Queue, placement.DefaultQueue)
			}
		}
		h.Own = slices.Concat(h.Own, schedules[h.Schedule], queues[h.Queue])
		for more := true; more; { // again if an earlier process made the notice, and it went out before this
			more = false
			for _, p := range w.plans.plan(h) {
				due, err := w.make(ctx, &p)
				if err != nil {
					w.plans.forget(p.ID)
					return err
				}
				w.plans.learn(p.ID, due)
				more = more || !p.More && h.At.After(due)
			}
		}
		w.warn(h)
	}
	return nil
}

// warn says once which target a job, schedule or queue names and this server does not know.
func (w *Watch) warn(h *Happening) {
	for i := range h.Own {
		for _, to := range h.Own[i].To {
			if w.Config.Targets[to] == nil && !w.warned[to] {
				w.warned[to] = true
				w.Log.Warn("a job, schedule or queue names a target that the file of the setting notify does not have; nobody is told", "job", h.Job, "schedule", h.Schedule, "queue", h.Queue, "target", to)
			}
		}
	}
}

// make makes the task of a notice, and returns when it goes out. If there is one, that is when it went.
func (w *Watch) make(ctx context.Context, p *Planned) (time.Time, error) {
	s, err := Submission(p.ID, p.At, &p.Notice)
	if err != nil {
		return p.At, err
	}
	if window := w.Config.Targets[p.To].Window; window != "" {
		s.Window = &window
	}
	r, err := w.Maker.Submit(ctx, s)
	if errors.Is(err, submit.ErrInvalid) && s.Window != nil {
		w.Log.Warn("a notice goes out at any time", "target", p.To, "error", err)
		s.Window = nil
		r, err = w.Maker.Submit(ctx, s)
	}
	switch {
	case errors.Is(err, events.ErrForgotten) || err == nil && !r.Again:
		return p.At, nil
	case err != nil && !errors.Is(err, submit.ErrOther): // another server's first failure was another one
		return p.At, err
	}
	is, err := w.Maker.Rec.Load(ctx, p.ID)
	for _, at := range []time.Time{is.StartedAt, is.Due, is.SubmittedAt} {
		if !at.IsZero() {
			return at, err
		}
	}
	return p.At, err
}

// Submission is the task of a notice, for the queue that servers work off.
func Submission(id task.ID, at time.Time, n *Notice) (birth.Submission, error) {
	s := birth.Submission{ID: id, At: at, Queue: job.NoticeQueue, Title: value.Cut("tell "+n.To+" of "+n.Kind+" "+oneLine(n.About), 150)}
	s.Spec = &job.Spec{
		Handler: job.NoticeHandler, Timeout: job.Timeout{Run: value.Duration(time.Minute)},
		Retry: job.Retry{Max: 1000, Min: value.Duration(5 * time.Second), MaxDelay: value.Duration(10 * time.Minute), Jitter: 0.3, Budget: value.Duration(news)},
	}
	text, err := json.Marshal(n)
	if err == nil {
		err = json.Unmarshal(text, &s.Params)
	}
	return s, err
}

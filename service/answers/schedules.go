package answers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/schedule"
	"millrace/task/value"
)

// scheduleRequest names a schedule, and says why something is done to it.
type scheduleRequest struct {
	// Name is the schedule's. Reason says why, for the log.
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty" flag:"reason" usage:"why, in words; the log keeps them"`
}

// scheduleRunRequest asks for a task of a schedule now.
type scheduleRunRequest struct {
	// Name is the schedule's.
	Name string `json:"name"`
	// Reason, Since, Limit and At have no effect: earlier versions took them here, too.
	Reason string    `json:"reason,omitempty" hidden:"true"`
	Since  time.Time `json:"since,omitzero" hidden:"true"`
	Limit  int       `json:"limit,omitempty" hidden:"true"`
	At     string    `json:"at,omitempty" hidden:"true"`
	// Task overrides fields of the task that a run makes.
	Task birth.Submission `json:"task,omitzero"`
	// RespectOverlap makes the run count for the schedule's overlap, as a planned one does: it is
	// refused if the overlap has no room for it, and planned ones find that it runs. Task must be empty.
	RespectOverlap bool `json:"respect_overlap,omitempty"`
}

// shownSchedule names a schedule to look at.
type shownSchedule struct {
	// Name is the schedule's.
	Name string `json:"name"`
	// Since is when the planned runs in the answer begin, default a day ago, and Limit how many there are
	// at most: 1 to 1000, default 50.
	Since time.Time `json:"since,omitzero"`
	Limit int       `json:"limit,omitempty"`
	// At is the moment of the answer: a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
}

// ticksSince is how far back ticks are shown by default.
const ticksSince = 24 * time.Hour

func (r *scheduleRequest) check() error { return value.ValidName("schedule", r.Name) }

func (r *scheduleRunRequest) check() error { return value.ValidName("schedule", r.Name) }

func (r *shownSchedule) check() error {
	return errors.Join(value.ValidName("schedule", r.Name), validLimit(&r.Limit))
}

func (s *Service) schedules(ctx context.Context, r client.MomentRequest) (is client.ScheduleList, err error) {
	if err := validPage(&r.PageRequest); err != nil {
		return is, err
	}
	if r.At == "" {
		return client.ScheduleListOf(ctx, s.view(), s.Model, s.now(), r.PageRequest)
	}
	v, when, err := s.then(ctx, r.At)
	if err == nil {
		is, err = client.ScheduleListOf(ctx, v, v, when, r.PageRequest)
	}
	return is, err
}

func (s *Service) jobs(ctx context.Context, r client.MomentRequest) (is client.JobList, err error) {
	if err := validPage(&r.PageRequest); err != nil {
		return is, err
	}
	if r.At == "" {
		return client.JobListOf(ctx, s.view(), s.Model, s.now(), r.PageRequest)
	}
	v, when, err := s.then(ctx, r.At)
	if err == nil {
		is, err = client.JobListOf(ctx, v, v, when, r.PageRequest)
	}
	return is, err
}

func (s *Service) schedule(ctx context.Context, r shownSchedule) (client.ScheduleView, error) {
	in, at := view.View(s.Client.View()), view.Point{At: s.now()}
	if r.At != "" {
		then, _, err := s.then(ctx, r.At)
		if err != nil {
			return client.ScheduleView{}, err
		}
		if at, err = then.Point(ctx); err != nil {
			return client.ScheduleView{}, err
		}
		in = then
	}
	if r.Since.IsZero() {
		r.Since = at.At.Add(-ticksSince)
	}
	return s.Client.ScheduleOf(ctx, in, at, r.Name, r.Since, r.Limit)
}

// gridRequest asks for a grid.
type gridRequest struct{ client.GridRequest }

func (r *gridRequest) check() error { return r.Check() }

func (s *Service) grid(ctx context.Context, r gridRequest) (client.Grid, error) {
	sight, err := s.See(ctx, r.At)
	if err != nil {
		return client.Grid{}, err
	}
	return sight.Grid(ctx, r.GridRequest)
}

// Grid returns what became of planned runs.
func (s *Sight) Grid(ctx context.Context, r client.GridRequest) (client.Grid, error) {
	ticks, ok := s.Sums.(view.Ticked)
	if !ok {
		return client.Grid{}, view.ErrUnindexed
	}
	w := &client.Gridded{View: s.View, Sums: ticks, Decided: s.Log.Decisions, At: view.Point{At: s.Now}}
	if s.Past {
		w.At = s.Point
	}
	_, whole, err := s.Log.PointAt(ctx, view.Moment{Seq: 1})
	if err == nil && !whole {
		var records []events.Record
		if records, err = s.Log.Page(ctx, 1, 1); len(records) > 0 {
			w.Begins = records[0].Stored
		}
	}
	if err != nil {
		return client.Grid{}, err
	}
	return client.GridOf(ctx, w, r)
}

// toggle returns the function of an endpoint that pauses or resumes schedules: its answer is the
// schedule.
func toggle(done string, do func(c *client.Client, ctx context.Context, name, reason string) (bool, error)) func(*Service, context.Context, scheduleRequest) (schedule.Stored, error) {
	return func(s *Service, ctx context.Context, r scheduleRequest) (schedule.Stored, error) {
		changed, err := do(s.Client, ctx, r.Name, r.Reason)
		if err != nil {
			return schedule.Stored{}, err
		}
		what := done
		if !changed {
			what = "unchanged"
		}
		if s.says("schedule %s %s", r.Name, what) {
			return schedule.Stored{}, nil
		}
		return s.Client.Schedule(ctx, r.Name)
	}
}

// nextRequest chooses future planned runs.
type nextRequest struct {
	// Name names one schedule; "" means all that are not paused.
	Name string `json:"name,omitempty"`
	// From is now by default, and Until any time.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Limit is how many planned runs are returned: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
}

func (r *nextRequest) check() error {
	if r.Name != "" {
		if err := value.ValidName("schedule", r.Name); err != nil {
			return err
		}
	}
	return validLimit(&r.Limit)
}

// tickList lists future planned runs, in the order in which they are due.
type tickList struct {
	// Ticks are the next ones, the earliest first.
	Ticks []schedule.Upcoming `json:"ticks"`
	// Paused are schedules that make no tasks until they are resumed. A list of all schedules leaves
	// out their planned runs.
	Paused []string `json:"paused,omitempty"`
	// Broken names schedules that are not valid.
	Broken string `json:"broken,omitempty"`
}

func (s *Service) ticks(ctx context.Context, r nextRequest) (tickList, error) {
	if r.From.IsZero() {
		r.From = s.now()
	}
	var stored []schedule.Stored
	var broken error
	if r.Name == "" {
		if stored, broken = s.Client.Schedules(ctx); broken != nil && len(stored) == 0 {
			return tickList{}, broken
		}
	} else {
		one, err := s.Client.Schedule(ctx, r.Name)
		if err != nil {
			return tickList{}, err
		}
		stored = append(stored, one)
	}
	is, plans := tickList{}, map[string]*schedule.Plan{}
	for i := range stored {
		if stored[i].Paused != nil {
			if is.Paused = append(is.Paused, stored[i].Name); r.Name == "" {
				continue
			}
		}
		plan, err := stored[i].Plan()
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("schedule %s: %w", stored[i].Name, err))
			continue
		}
		plans[stored[i].Name] = plan
	}
	// From then on.
	is.Ticks = schedule.Timeline(plans, r.From.Add(-time.Nanosecond), r.Until, r.Limit)
	if broken != nil {
		is.Broken = broken.Error()
	}
	return is, nil
}

// jobOfBreaker names a job to look at.
type jobOfBreaker struct {
	// Name is the job's.
	Name string `json:"name"`
}

func (r *jobOfBreaker) check() error { return value.ValidName("job", r.Name) }

// breakerRequest names a job, and says why its breaker is closed.
type breakerRequest struct {
	// Name is the job's. Reason says why, for the log.
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
}

func (r *breakerRequest) check() error { return value.ValidName("job", r.Name) }

func (s *Service) breaker(ctx context.Context, r jobOfBreaker) (limit.Circuit, error) {
	return s.Client.Breaker(ctx, r.Name)
}

// resetBreaker closes the breaker, and returns its new state.
func (s *Service) resetBreaker(ctx context.Context, r breakerRequest) (limit.Circuit, error) {
	was, err := s.Client.ResetBreaker(ctx, r.Name, r.Reason)
	if err != nil || s.says("breaker of job %s is closed (it was %s)", r.Name, was.State) {
		return limit.Circuit{}, err
	}
	return s.Client.Breaker(ctx, r.Name)
}

func (s *Service) runSchedule(ctx context.Context, r scheduleRunRequest) (client.Receipt, error) {
	if !r.RespectOverlap {
		return s.Client.RunSchedule(ctx, r.Name, r.Task)
	}
	if !reflect.DeepEqual(r.Task, birth.Submission{}) {
		return client.Receipt{}, client.Wrongf("task: a run that counts for the overlap is a task as the schedule makes them; leave it out")
	}
	return s.Client.RunCounted(ctx, r.Name)
}

// backfillTicks is the most ticks that one request may cover.
const backfillTicks = 20_000

// progressRequest names a schedule and a time.
type progressRequest struct{ client.Backfill }

func (r *progressRequest) check() error {
	if r.From == "" {
		return errors.New("from is missing: the first time of the planned runs that are meant")
	}
	return value.ValidName("schedule", r.Name)
}

// backfillRequest says which planned runs get tasks, and how.
type backfillRequest struct {
	progressRequest
	// MaxParallel is how many of these tasks may be unfinished at one time. Default 0: any number.
	MaxParallel int `json:"max_parallel,omitempty"`
	// Limit is how many tasks are made at most: 1 to 1000. Default 1000.
	Limit int `json:"limit,omitempty"`
	// DryRun makes nothing: the answer only counts the tasks and names the first ones.
	DryRun bool `json:"dry_run,omitempty"`
}

func (r *backfillRequest) check() error {
	if r.Limit == 0 {
		r.Limit = view.MaxLimit
	}
	switch {
	case r.Limit < 1 || r.Limit > view.MaxLimit:
		return fmt.Errorf("limit is %d, want 1 to %d", r.Limit, view.MaxLimit)
	case r.MaxParallel < 0 || r.MaxParallel > view.MaxLimit:
		return fmt.Errorf("max_parallel is %d, want 1 to %d, or 0 for any number", r.MaxParallel, view.MaxLimit)
	}
	return r.progressRequest.check()
}

// ticksOf returns the ticks that a request covers.
func (s *Service) ticksOf(ctx context.Context, r *client.Backfill) ([]schedule.Tick, error) {
	of, err := s.Client.Schedule(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	return client.BackfillTicks(&of, r, s.now(), backfillTicks)
}

// ends returns how the tasks of these ticks stand, as of seq or later; ticks without a task are
// missing.
func (s *Service) ends(ctx context.Context, name string, ticks []schedule.Tick, seq uint64) (map[task.ID]task.End, error) {
	if err := s.Model.Wait(ctx, seq); err != nil {
		return nil, err
	}
	ids := make([]task.ID, len(ticks))
	for i := range ticks {
		ids[i] = schedule.TaskID(name, ticks[i].At)
	}
	ends, _, err := s.Model.Ends(ctx, ids)
	return ends, err
}

// backfilled reports how far the ticks have come. A follower gets another report whenever one of
// their tasks changes.
func (s *Service) backfilled(ctx context.Context, r progressRequest) (client.Backfilled, error) {
	ticks, err := s.ticksOf(ctx, &r.Backfill)
	if err != nil {
		return client.Backfilled{}, err
	}
	ends, err := s.ends(ctx, r.Name, ticks, 0)
	return client.Filled(r.Name, ticks, ends), err
}

func (s *Service) backfill(ctx context.Context, r backfillRequest) (is client.Backfilled, err error) {
	ticks, err := s.ticksOf(ctx, &r.Backfill)
	if err != nil {
		return is, err
	}
	last, err := s.Client.Last(ctx)
	if err != nil {
		return is, err
	}
	ends, err := s.ends(ctx, r.Name, ticks, last)
	if err != nil {
		return is, err
	}
	lacking := client.Lacking(r.Name, ticks, ends, r.MaxParallel, r.Limit)
	if r.DryRun {
		is = client.Filled(r.Name, ticks, ends)
		is.DryRun = true
		for i := range lacking {
			is.Tasks = append(is.Tasks, client.BackfilledTick{Tick: lacking[i].At, Task: schedule.TaskID(r.Name, lacking[i].At)})
		}
		return is, nil
	}
	var tasks []client.BackfilledTick
	made := 0
	making, cancel := context.WithTimeout(ctx, bulkPatience)
	defer cancel()
	interrupted, broken := s.Client.RunTicks(making, r.Name, lacking, func(t client.BackfilledTick, seq uint64) {
		tasks, last = append(tasks, t), max(last, seq)
		if t.Made {
			made++
		}
	})
	if broken != nil && len(tasks) == 0 {
		return is, broken
	}
	if ends, err = s.ends(ctx, r.Name, ticks, last); err != nil {
		return is, err
	}
	is = client.Filled(r.Name, ticks, ends)
	is.Made, is.Tasks, is.Interrupted = made, append(is.Tasks, tasks...), interrupted
	if broken != nil {
		is.Broken = broken.Error()
	}
	return is, nil
}

// monitorPing says how the program is that a monitor watches.
type monitorPing struct {
	// Name is the monitor's.
	Name string `json:"name"`
	schedule.Ping
}

func (r *monitorPing) check() error { return value.ValidName("monitor", r.Name) }

// pinged is what a ping has done.
type pinged struct {
	// Task is the run that was told, and Nothing says why none was.
	Task    task.ID `json:"task,omitempty"`
	Nothing string  `json:"nothing,omitempty"`
}

// errNoMonitor: no monitor has the name.
var errNoMonitor = errors.New("there is no such monitor")

// pingMonitor tells the run of a monitor that waits for it. Its answer says that the log has it.
func (s *Service) pingMonitor(ctx context.Context, r monitorPing) (is pinged, err error) {
	if err := r.Complete(s.now()); err != nil {
		return is, badRequest{err}
	}
	of, err := s.Client.Job(ctx, r.Name)
	if errors.Is(err, definitions.ErrNoJob) || err == nil && !of.Monitors() {
		return is, fmt.Errorf("%w: %s", errNoMonitor, r.Name)
	} else if err != nil {
		return is, err
	}
	data, err := value.JSON(r.Ping)
	if err != nil {
		return is, err
	}
	for made := (schedule.Meant{}); ; {
		met, seq, err := s.meets(ctx, r.Name)
		if err != nil {
			return is, err
		}
		meant := met.For(&r.Ping)
		switch {
		case meant.Nothing != "":
			return pinged{Nothing: meant.Nothing}, nil
		case meant == made: // another ping has ended what was made for this one
			return pinged{Nothing: "the same was said before"}, nil
		case meant.Next:
			_, _, err = s.Client.RunTick(ctx, r.Name, meant.Tick)
		case meant.Own:
			err = s.Client.RunPinged(ctx, met.Stored, meant.Tick, &r.Ping)
		default:
			_, err = s.Client.Approve(ctx, meant.Run, client.Approval{Data: data, Reason: "ping " + r.Word})
			if err == nil {
				return pinged{Task: meant.Run}, nil
			}
			if errors.Is(err, task.ErrNotHeld) || errors.Is(err, task.ErrEnded) { // it is on its way to the next wait, or to its end
				err = s.Model.News(ctx, seq)
			}
		}
		if err != nil {
			return is, err
		}
		if meant.Run == "" {
			made = meant
		}
	}
}

// meets returns what a ping of a monitor meets now, and the sequence up to which that is known.
func (s *Service) meets(ctx context.Context, name string) (*schedule.Pinged, uint64, error) {
	stored, err := s.Client.Schedule(ctx, name)
	if errors.Is(err, definitions.ErrNoSchedule) {
		err = fmt.Errorf("%w: %s has no schedule of its name", errNoMonitor, name)
	}
	if err != nil {
		return nil, 0, err
	}
	met := &schedule.Pinged{Stored: &stored, Now: s.now()}
	if met.Plan, err = stored.Plan(); err != nil {
		return nil, 0, err
	}
	seq, err := s.Client.Last(ctx)
	if err == nil {
		err = s.Model.Wait(ctx, seq)
	}
	if err != nil {
		return nil, 0, err
	}
	all := task.States()
	open, ended := all[:task.Finished-1], all[task.Finished-1:]
	page, err := s.view().List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Schedule: name, States: open, OldestFirst: true, Limit: view.MaxLimit}})
	if err != nil {
		return nil, 0, err
	}
	last, err := s.view().List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Schedule: name, States: ended, Limit: 1}})
	met.Open = page.Tasks
	if len(last.Tasks) > 0 {
		met.Last = &last.Tasks[0]
	}
	return met, max(page.Point.Seq, seq), err
}

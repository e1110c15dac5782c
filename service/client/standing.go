package client

import (
	"context"
	"errors"
	"time"

	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// SkippedFor is how far back a list of schedules counts ticks without a task.
const SkippedFor = 24 * time.Hour

// Run is the latest task of a job or schedule, as a list shows it.
type Run struct {
	// Task is its id, and State how it stands. Reason is the code beside the state, and Message the
	// reason in words. Node runs the task, or ran it last.
	Task    task.ID    `json:"task"`
	State   task.State `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Node    string     `json:"node,omitempty"`
	// Tick is when its schedule planned it for, and At when the task was submitted.
	Tick time.Time `json:"tick,omitzero"`
	At   time.Time `json:"at"`
	// Since is when its state began, and Ran how long its last attempt ran.
	Since time.Time      `json:"since"`
	Ran   value.Duration `json:"ran,omitempty"`
}

// RunOf returns the part of a task that a list shows; nil for a task without an ID.
func RunOf(t *task.Task) *Run {
	if t.ID == "" {
		return nil
	}
	return &Run{t.ID, t.State, t.Reason, t.Message, t.Node, t.Tick, t.SubmittedAt, t.Since, t.Ran}
}

// ScheduleRow is a schedule in a list.
type ScheduleRow struct {
	schedule.Stored
	// Next is its next planned run; nil if there is none, or it is paused.
	Next *schedule.Tick `json:"next,omitempty"`
	// Last is the task of its latest planned run; nil for none, or if no millrace server answers.
	Last *Run `json:"last,omitempty"`
	// Skipped counts, by reason, the planned runs within [SkippedFor] that got no task; Undecided counts
	// past planned runs without a decision: a scheduler is late, or none runs.
	Skipped   map[string]int `json:"skipped,omitempty"`
	Undecided int            `json:"undecided,omitempty"`
}

// Key is by what lists are in order.
func (r *ScheduleRow) Key() string { return r.Name }

// Missed returns how many recent ticks got no task.
func (r *ScheduleRow) Missed() int {
	n := r.Undecided
	for _, skipped := range r.Skipped {
		n += skipped
	}
	return n
}

// maxUndecided bounds how many undecided ticks are counted.
const maxUndecided = 1000

// NewScheduleRow makes the row of a schedule from its latest task, the latest decided tick, and the
// skipped ticks.
func NewScheduleRow(stored schedule.Stored, last *Run, decided time.Time, skipped map[string]int, now time.Time) ScheduleRow {
	r := ScheduleRow{Stored: stored, Last: last, Skipped: skipped}
	plan, err := stored.Plan()
	if err != nil || stored.Paused != nil {
		return r
	}
	if tick, ok := plan.Next(now); ok {
		r.Next = &tick
	}
	if decided.Before(stored.Since) {
		decided = stored.Since
	}
	passed, _ := plan.Between(decided, now, maxUndecided)
	for _, tick := range passed {
		if tick.Due.Before(now.Add(-schedule.Grace)) {
			r.Undecided++
		}
	}
	return r
}

// ScheduleRows returns all schedules by name, with their latest tasks and recent ticks. If no
// millrace server answers, it returns what the definitions hold, and an error that wraps
// [jet.ErrNoService]. Beside rows, an error may also name schedules that are not valid.
func (c *Client) ScheduleRows(ctx context.Context) ([]ScheduleRow, error) {
	page, err := c.ScheduleList(ctx, MomentRequest{})
	if err == nil || !errors.Is(err, jet.ErrNoService) {
		return page.Rows(err)
	}
	rows, broken := ScheduleRowsOf(ctx, c.View(), nil, c.Now())
	return rows, errors.Join(broken, err)
}

// ScheduleRowsOf returns the schedules of a view by name, at a time, with their tasks and ticks
// from sums, which may be nil. Beside rows, the error names schedules that are not valid.
func ScheduleRowsOf(ctx context.Context, v view.View, sums view.Summed, now time.Time) ([]ScheduleRow, error) {
	all, broken := SchedulesOf(ctx, v)
	if broken != nil && len(all) == 0 {
		return nil, broken
	}
	var ticks map[string]*view.Ticks
	if sums != nil {
		var err error
		if ticks, _, err = sums.Schedules(ctx, now.Add(-SkippedFor)); err != nil {
			return nil, err
		}
	}
	rows := make([]ScheduleRow, len(all))
	for i := range all {
		k := ticks[all[i].Name]
		switch {
		case sums == nil:
			k = &view.Ticks{Decided: now} // no ticks are known to have passed
		case k == nil:
			k = &view.Ticks{}
		}
		rows[i] = NewScheduleRow(all[i], RunOf(&k.Last), k.Decided, k.Skipped, now)
	}
	return rows, broken
}

// ScheduleList is all schedules; Broken names those that are not valid.
type ScheduleList struct {
	// Schedules are in the order of their names. Broken names those that are not valid.
	Schedules []ScheduleRow `json:"schedules"`
	Broken    string        `json:"broken,omitempty"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

// Rows returns the rows of the list that came with err; the error also names schedules that are not
// valid.
func (l *ScheduleList) Rows(err error) ([]ScheduleRow, error) {
	return l.Schedules, told(l.Broken, err)
}

// ScheduleList asks a server for schedules: for all, if the request has no limit. The error wraps
// [jet.ErrNoService] if none answers.
func (c *Client) ScheduleList(ctx context.Context, r MomentRequest) (list ScheduleList, err error) {
	err = r.pages(func() (string, error) {
		var page ScheduleList
		err := c.ask(ctx, rights.ScheduleList, r, &page)
		list.Schedules, list.Broken, list.Next = joined(list.Schedules, page.Schedules), page.Broken, page.Next
		return page.Next, err
	})
	return list, err
}

// ScheduleListOf returns the page of [ScheduleRowsOf] that a request chooses; without a limit, all
// of them.
func ScheduleListOf(ctx context.Context, v view.View, sums view.Summed, now time.Time, r PageRequest) (list ScheduleList, err error) {
	rows, broken := ScheduleRowsOf(ctx, v, sums, now)
	switch {
	case broken != nil && len(rows) == 0:
		return list, broken
	case broken != nil:
		list.Broken = broken.Error()
	}
	list.Schedules, list.Next, err = view.Section(rows, (*ScheduleRow).Key, r.Limit, r.Cursor)
	return list, err
}

// told returns err, or else an error for broken.
func told(broken string, err error) error {
	if err == nil && broken != "" {
		return errors.New(broken)
	}
	return err
}

// PageRequest chooses a page of a list that is in the order of names.
type PageRequest struct {
	// Limit is how many rows a page has: 1 to 1000, default 1000. A page has fewer if they would not
	// fit into one message; then Next continues.
	Limit int `json:"limit,omitempty"`
	// Cursor is the Next of the previous page.
	Cursor string `json:"cursor,omitempty"`
}

// pages asks for a list: for one page if the request has a limit, else for all of them. Ask returns
// the cursor of the next page.
func (r *PageRequest) pages(ask func() (next string, err error)) error {
	for {
		next, err := ask()
		if err != nil || next == "" || r.Limit > 0 {
			return err
		}
		r.Cursor = next
	}
}

func joined[T any](all, more []T) []T {
	if all == nil {
		return more
	}
	return append(all, more...)
}

// MomentRequest asks for a list, perhaps of the past.
type MomentRequest struct {
	// At is a moment of the past: a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
	PageRequest
}

// JobRow is a job in a list.
type JobRow struct {
	definitions.StoredJob
	// Schedules are the names of the schedules that make tasks of it.
	Schedules []string `json:"schedules,omitempty"`
	// Next is when the next planned run of one of them is due; zero if there is none, or all are paused.
	Next time.Time `json:"next,omitzero"`
	// Last is its latest task without a parent; nil for none, or if no millrace server answers.
	Last *Run `json:"last,omitempty"`
}

// Key is by what lists are in order.
func (r *JobRow) Key() string { return r.Name }

// JobList is jobs; Broken names those that are not valid.
type JobList struct {
	// Jobs are in the order of their names. Broken names those that are not valid.
	Jobs   []JobRow `json:"jobs"`
	Broken string   `json:"broken,omitempty"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

// Rows returns the rows of the list that came with err; the error also names jobs that are not
// valid.
func (l *JobList) Rows(err error) ([]JobRow, error) { return l.Jobs, told(l.Broken, err) }

// JobList asks a server for jobs: for all, if the request has no limit. The error wraps
// [jet.ErrNoService] if none answers.
func (c *Client) JobList(ctx context.Context, r MomentRequest) (list JobList, err error) {
	err = r.pages(func() (string, error) {
		var page JobList
		err := c.ask(ctx, rights.JobList, r, &page)
		list.Jobs, list.Broken, list.Next = joined(list.Jobs, page.Jobs), page.Broken, page.Next
		return page.Next, err
	})
	return list, err
}

// JobListOf returns the page of [JobRowsOf] that a request chooses; without a limit, all of them.
func JobListOf(ctx context.Context, v view.View, sums view.Summed, now time.Time, r PageRequest) (list JobList, err error) {
	rows, broken := JobRowsOf(ctx, v, sums, now)
	switch {
	case broken != nil && len(rows) == 0 && !errors.Is(broken, definitions.ErrBadJob):
		return list, broken
	case broken != nil:
		list.Broken = broken.Error()
	}
	list.Jobs, list.Next, err = view.Section(rows, (*JobRow).Key, r.Limit, r.Cursor)
	return list, err
}

// JobRows is [Client.ScheduleRows] for jobs.
func (c *Client) JobRows(ctx context.Context) ([]JobRow, error) {
	page, err := c.JobList(ctx, MomentRequest{})
	if err == nil || !errors.Is(err, jet.ErrNoService) {
		return page.Rows(err)
	}
	rows, broken := JobRowsOf(ctx, c.View(), nil, c.Now())
	return rows, errors.Join(broken, err)
}

// JobRowsOf returns the jobs of a view by name, at a time, with their latest tasks from sums, which may be
// nil. Beside rows, the error names jobs that are not valid.
func JobRowsOf(ctx context.Context, v view.View, sums view.Summed, now time.Time) ([]JobRow, error) {
	jobs, broken := JobsOf(ctx, v)
	schedules, err := SchedulesOf(ctx, v)
	if len(schedules) > 0 {
		err = nil // a list of schedules names those that are not valid
	}
	var last map[string]task.Task
	if sums != nil {
		var failed error
		if last, _, failed = sums.LastOfJobs(ctx); failed != nil {
			return nil, failed
		}
	}
	of, next := map[string][]string{}, map[string]time.Time{}
	for i := range schedules {
		name := schedules[i].Make.Job
		if name == "" {
			continue
		}
		of[name] = append(of[name], schedules[i].Name)
		if plan, err := schedules[i].Plan(); err == nil && schedules[i].Paused == nil {
			if tick, ok := plan.Next(now); ok && (next[name].IsZero() || tick.Due.Before(next[name])) {
				next[name] = tick.Due
			}
		}
	}
	rows := make([]JobRow, len(jobs))
	for i := range jobs {
		t := last[jobs[i].Name]
		rows[i] = JobRow{jobs[i], of[jobs[i].Name], next[jobs[i].Name], RunOf(&t)}
	}
	return rows, errors.Join(broken, err)
}

// JobsOf returns the jobs of a view by name. The error names those that are not valid.
func JobsOf(ctx context.Context, v view.View) ([]definitions.StoredJob, error) {
	return definedIn(ctx, v, task.DefJob, definitions.JobsIn)
}

// SchedulesOf returns the schedules of a view by name. The error names those that are not valid.
func SchedulesOf(ctx context.Context, v view.View) ([]schedule.Stored, error) {
	return definedIn(ctx, v, task.DefSchedule, definitions.SchedulesIn)
}

// CalendarsOf returns the calendars of a view by name. The error names those that are not valid.
func CalendarsOf(ctx context.Context, v view.View) ([]schedule.StoredCalendar, error) {
	return definedIn(ctx, v, task.DefCalendar, definitions.CalendarsIn)
}

// CalendarUses are the names of what goes by a calendar: the jobs and schedules whose tasks, and
// the queues all of whose tasks, start only while it is open.
type CalendarUses struct {
	Jobs, Schedules, Queues []string
}

// CalendarUsesOf returns which jobs, schedules and queues of a view name a calendar, by its name.
// It leaves out jobs and schedules that are not valid, which their own lists name.
func CalendarUsesOf(ctx context.Context, v view.View) (map[string]*CalendarUses, error) {
	uses := map[string]*CalendarUses{}
	of := func(calendar string) *CalendarUses {
		if uses[calendar] == nil {
			uses[calendar] = &CalendarUses{}
		}
		return uses[calendar]
	}
	jobs, err := JobsOf(ctx, v)
	if err != nil && !errors.Is(err, definitions.ErrBadJob) {
		return nil, err
	}
	specs := map[string]*job.Spec{} // by the names of jobs
	for i := range jobs {
		specs[jobs[i].Name] = &jobs[i].Spec
		for _, calendar := range jobs[i].Windows() {
			of(calendar).Jobs = append(of(calendar).Jobs, jobs[i].Name)
		}
	}
	schedules, err := SchedulesOf(ctx, v)
	if err != nil && !errors.Is(err, definitions.ErrBadSchedule) {
		return nil, err
	}
	for i := range schedules {
		for _, calendar := range schedules[i].Make.Windows(specs[schedules[i].Make.Job]) {
			of(calendar).Schedules = append(of(calendar).Schedules, schedules[i].Name)
		}
	}
	told, err := v.List(ctx, view.Query{Kind: view.Queues})
	if err != nil {
		return nil, err
	}
	for i := range told.Queues {
		if calendar := told.Queues[i].Window; calendar != "" {
			of(calendar).Queues = append(of(calendar).Queues, told.Queues[i].Name)
		}
	}
	return uses, nil
}

// TokensOf returns the tokens of a view by name. The error names those that are not valid.
func TokensOf(ctx context.Context, v view.View) ([]definitions.StoredToken, error) {
	return definedIn(ctx, v, task.DefToken, definitions.TokensIn)
}

// BundlesOf returns the names of versions and their latest version, in a view.
func BundlesOf(ctx context.Context, v view.View) ([]definitions.NamedVersion, error) {
	return definedIn(ctx, v, task.DefBundle, definitions.BundlesIn)
}

func definedIn[D any](ctx context.Context, v view.View, kind string, read func(map[task.Def]task.Definition) ([]D, error)) ([]D, error) {
	page, err := v.List(ctx, view.Query{Kind: view.Definitions, Of: kind})
	if err != nil {
		return nil, err
	}
	return read(page.Definitions)
}

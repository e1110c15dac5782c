package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"millrace/events/jet/definitions"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/condition"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/placement"
	"millrace/task/schedule"
	"millrace/task/value"
)

// maxBulk is how many submissions a request may have.
const maxBulk = 1000

// bulkRequest is several submissions, of any kinds.
type bulkRequest struct {
	// Tasks are 1 to 1000 submissions.
	Tasks []birth.Submission `json:"tasks"`
}

func (r *bulkRequest) check() error {
	if n := len(r.Tasks); n == 0 || n > maxBulk {
		return fmt.Errorf("there are %d tasks, want 1 to %d", n, maxBulk)
	}
	return nil
}

// bulkAnswer holds the receipts of several submissions, in their order.
type bulkAnswer struct {
	// Receipts are those of the submissions, in the order of the request.
	Receipts []client.Receipt `json:"receipts"`
	// Broken is the error of the submission after the last receipt; later ones may not have been
	// submitted.
	Broken string `json:"broken,omitempty"`
}

func (s *Service) bulk(ctx context.Context, r bulkRequest) (is bulkAnswer, err error) {
	err = s.Client.SubmitAll(ctx, r.Tasks, func(r client.Receipt) { is.Receipts = append(is.Receipts, r) })
	if err != nil && len(is.Receipts) > 0 {
		is.Broken, err = err.Error(), nil
	}
	return is, err
}

// editRequest names a task, and its new priority.
type editRequest struct {
	// ID is the task's, Priority its new priority, [placement.MinPriority] to [placement.MaxPriority]: the
	// larger the more urgent. Reason says why, for the log.
	ID       task.ID `json:"id"`
	Priority int     `json:"priority" flag:"priority" usage:"1 to 10, the larger the more urgent"`
	Reason   string  `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
}

func (r *editRequest) check() (err error) {
	if r.ID, err = task.ParseID(string(r.ID)); err != nil {
		return err
	}
	return placement.ValidPriority(r.Priority)
}

func (s *Service) edit(ctx context.Context, r editRequest) (task.Task, error) {
	return s.Client.Prioritize(ctx, r.ID, r.Priority, r.Reason)
}

// definitionRequest names a job or calendar, and perhaps a revision of it or a moment of the past.
type definitionRequest struct {
	// Name is that of the definition. Revision is one of its revisions; default: the current one.
	Name     string `json:"name"`
	Revision uint64 `json:"revision,omitempty"`
	// At is a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
}

func (r *definitionRequest) check() error {
	if r.Revision > 0 && r.At != "" {
		return errors.New("want a revision, or the moment that at names, not both")
	}
	return value.ValidName("definition", r.Name)
}

// nameRequest names a job, schedule or calendar.
type nameRequest struct {
	// Name is that of the definition.
	Name string `json:"name"`
}

func (r *nameRequest) check() error { return value.ValidName("definition", r.Name) }

// applyRequest names a definition and holds its new content.
type applyRequest[T any] struct {
	// Name is that of the definition, and Definition its whole new content.
	Name       string `json:"name"`
	Definition T      `json:"definition"`
	// IfRevision is the revision that the change is based on, 0 for none: if the current one
	// differs, nothing changes. Default: any.
	IfRevision *uint64 `json:"if_revision,omitempty"`
}

// seen returns the revision that a request names; any if it names none.
func seen(revision *uint64) []uint64 {
	if revision == nil {
		return nil
	}
	return []uint64{*revision}
}

func (r *applyRequest[T]) check() error { return value.ValidName("definition", r.Name) }

// applied reports what became of a definition.
type applied struct {
	// Revision is the one that the definition has now.
	Revision uint64 `json:"revision"`
	// Changed tells whether it is new or has changed.
	Changed bool `json:"changed"`
}

// calendarList is a page of calendars.
type calendarList struct {
	// Calendars are in the order of their names.
	Calendars []schedule.StoredCalendar `json:"calendars"`
	// Broken names those that are not valid.
	Broken string `json:"broken,omitempty"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

func calendarKey(c *schedule.StoredCalendar) string { return c.Name }

// apply stores a definition, if it is valid, under the name of its request; the definition need not
// repeat the name.
func apply[T any](r *applyRequest[T], name *string, valid func() error, put func(seen ...uint64) (uint64, bool, error)) (applied, error) {
	if *name == "" {
		*name = r.Name
	}
	if *name != r.Name {
		return applied{}, badRequest{fmt.Errorf("the definition of %q calls itself %q", r.Name, *name)}
	}
	if err := valid(); err != nil {
		return applied{}, badRequest{err}
	}
	revision, changed, err := put(seen(r.IfRevision)...)
	return applied{revision, changed}, err
}

func (s *Service) job(ctx context.Context, r definitionRequest) (definitions.StoredJob, error) {
	if r.At != "" {
		return definedAt(ctx, s, &r, task.DefJob, definitions.JobIn)
	}
	return s.Client.JobAt(ctx, r.Name, r.Revision)
}

func (s *Service) applyJob(ctx context.Context, r applyRequest[job.Job]) (applied, error) {
	valid := func() error {
		return value.JoinFaults(condition.Valid(&r.Definition), schedule.ValidateOfJob(&r.Definition, "timetable", nil))
	}
	return apply(&r, &r.Definition.Name, valid, func(seen ...uint64) (uint64, bool, error) {
		if err := s.Client.RefusesCircle(ctx, &r.Definition, nil); err != nil {
			return 0, false, err
		}
		return s.Client.Apply(ctx, r.Definition, seen...)
	})
}

func (s *Service) calendars(ctx context.Context, r client.MomentRequest) (is calendarList, err error) {
	if err := validPage(&r.PageRequest); err != nil {
		return is, err
	}
	all, broken := s.Client.Calendars(ctx)
	if r.At != "" {
		v, _, err := s.then(ctx, r.At)
		if err != nil {
			return is, err
		}
		all, broken = client.CalendarsOf(ctx, v)
	}
	if broken != nil && len(all) == 0 {
		return is, broken
	}
	if broken != nil {
		is.Broken = broken.Error()
	}
	all, is.Next, err = view.Section(all, calendarKey, r.Limit, r.Cursor)
	is.Calendars = append([]schedule.StoredCalendar{}, all...)
	return is, err
}

func (s *Service) calendar(ctx context.Context, r definitionRequest) (schedule.StoredCalendar, error) {
	if r.At != "" {
		return definedAt(ctx, s, &r, task.DefCalendar, definitions.CalendarIn)
	}
	return s.Client.CalendarAt(ctx, r.Name, r.Revision)
}

func (s *Service) applyCalendar(ctx context.Context, r applyRequest[schedule.Calendar]) (applied, error) {
	valid := func() error {
		_, err := r.Definition.Hours()
		return err
	}
	return apply(&r, &r.Definition.Name, valid, func(seen ...uint64) (uint64, bool, error) { return s.Client.ApplyCalendar(ctx, r.Definition, seen...) })
}

func (s *Service) applySchedule(ctx context.Context, r applyRequest[schedule.Definition]) (applied, error) {
	if r.Definition.OfJob {
		return applied{}, badRequest{errors.New("definition.of_job: the schedule of a job is stored with the job")}
	}
	return apply(&r, &r.Definition.Name, r.Definition.Validate, func(seen ...uint64) (uint64, bool, error) { return s.Client.PutSchedule(ctx, r.Definition, seen...) })
}

// removing returns the function of an endpoint that removes a definition of a kind.
func removing(kind string, do func(c *client.Client, ctx context.Context, name string) error) func(*Service, context.Context, nameRequest) (nameRequest, error) {
	return func(s *Service, ctx context.Context, r nameRequest) (nameRequest, error) {
		err := do(s.Client, ctx, r.Name)
		if err == nil {
			s.says("%s %s removed", kind, r.Name)
		}
		return r, err
	}
}

// removeJob removes a job, and notes which schedules went with it.
func (s *Service) removeJob(ctx context.Context, r nameRequest) (_ nameRequest, err error) {
	var own []string
	if s.Note != nil {
		if own, _, err = s.Client.SchedulesOfJob(ctx, r.Name); err != nil {
			return r, err
		}
	}
	if err := s.Client.RemoveJob(ctx, r.Name); err != nil {
		return r, err
	}
	for _, name := range own {
		s.Note(fmt.Sprintf("schedule %s removed with job %s", name, r.Name))
	}
	s.says("job %s removed", r.Name)
	return r, nil
}

// foreseeJob finds out whether a job could be removed, and says which schedules would go with it.
func (s *Service) foreseeJob(ctx context.Context, name string) error {
	own, others, err := s.Client.SchedulesOfJob(ctx, name)
	if err == nil {
		_, err = s.Client.Job(ctx, name)
	}
	if err == nil && len(others) > 0 {
		err = &client.InUse{Job: name, Schedules: others}
	}
	for _, schedule := range own {
		s.says("schedule %s would be removed", schedule)
	}
	if err == nil {
		s.says("job %s would be removed", name)
	}
	return err
}

// foreseeSchedule finds out whether there is a schedule to remove.
func (s *Service) foreseeSchedule(ctx context.Context, name string) error {
	_, err := s.Client.Schedule(ctx, name)
	if err == nil {
		s.says("schedule %s would be removed", name)
	}
	return err
}

// textRequest holds the text of a file.
type textRequest struct {
	// Text is YAML, with one job in each document.
	Text string `json:"text"`
}

// Bounds of a text to check, for any viewer may ask for it: more than a folder of jobs has.
const (
	maxText      = 64 << 10
	maxDocuments = 100
)

func (r *textRequest) check() error {
	documents := 1
	for line := range strings.Lines(r.Text) {
		if strings.HasPrefix(line, "---") {
			documents++
		}
	}
	switch {
	case r.Text == "":
		return errors.New("text: there is none to check")
	case len(r.Text) > maxText:
		return fmt.Errorf("text has %d bytes, want at most %d: check the files one by one, or with `millrace job validate`", len(r.Text), maxText)
	case documents > maxDocuments:
		return fmt.Errorf("text has %d documents, want at most %d: check them in parts, or with `millrace job validate`", documents, maxDocuments)
	}
	return nil
}

func (s *Service) validateJobs(ctx context.Context, r textRequest) (jobfile.Report, error) {
	parse := jobfile.ParseWith(condition.Valid, func(d schedule.Definition) error { return s.Client.RefusesSchedule(ctx, d) })
	return jobfile.ReportOf(parse("", []byte(r.Text))), nil
}

func (s *Service) jobSchema(context.Context, nothing) (json.RawMessage, error) {
	return job.Schema(), nil
}

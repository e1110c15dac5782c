package wording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/schedule"
	"millrace/task/value"
)

// scheduleFact describes a fact of a schedule.
func scheduleFact(event task.ScheduleEvent) string {
	switch e := event.(type) {
	case task.ScheduleFired:
		return Words(stamped("planned for", e.Tick), e.Detail)
	case task.ScheduleAdmitted:
		return Words(stamped("planned for", e.Tick), e.Trigger, "task "+string(e.Made), e.Detail)
	case task.ScheduleSkipped:
		if e.Count > 1 {
			return Words(fmt.Sprintf("%s from %s to %s", Plural(e.Count, "planned run"), value.Clock(e.Tick.UTC()), value.Clock(e.Until.UTC())), e.Reason, e.Detail)
		}
		return Words(stamped("planned for", e.Tick), e.Reason, e.Detail)
	case task.ScheduleQueued:
		return Words(stamped("planned for", e.Tick), e.Trigger, e.Detail)
	}
	return ""
}

func originText(o task.Origin) string {
	if o.After != "" {
		return "after the end of " + o.After.Short()
	}
	if o.Schedule == "" {
		return o.MadeBy
	}
	text := fmt.Sprintf("schedule %s, planned for %s", o.Schedule, value.Clock(o.Tick.UTC()))
	if o.Trigger == "" || o.Trigger == task.TriggerSchedule {
		return text
	}
	return o.Trigger + " of " + text
}

// When says briefly when a schedule makes tasks.
func When(s *job.Schedule) string {
	switch {
	case s.Cron != "":
		return s.Cron
	case s.Every != 0:
		return "every " + s.Every.String()
	}
	return "at " + s.At
}

// Planned is [When] in plain words, if there are short ones: "every day at 03:00".
func Planned(s *job.Schedule) string {
	if s.Every != 0 {
		text := s.Every.String()
		for _, zero := range []string{"m0s", "h0m"} {
			text = strings.Replace(text, zero, zero[:1], 1)
		}
		return "every " + text
	}
	fields := strings.Fields(s.Cron)
	if len(fields) != 5 || fields[2] != "*" || fields[3] != "*" {
		return When(s)
	}
	minute, err := strconv.Atoi(fields[0])
	if every, step := strings.CutPrefix(fields[0], "*/"); step && fields[1] == "*" && fields[4] == "*" {
		if n, err := strconv.Atoi(every); err == nil && n > 1 && 60%n == 0 {
			return "every " + every + " minutes"
		}
	}
	days := fields[4]
	if day, err := strconv.Atoi(days); err == nil && day >= 0 && day <= 7 {
		days = "every " + time.Weekday(day%7).String()
	} else if days = map[string]string{"*": "every day", "1-5": "Monday to Friday"}[days]; days == "" {
		return When(s)
	}
	hour, wrong := strconv.Atoi(fields[1])
	switch {
	case err == nil && wrong == nil:
		return fmt.Sprintf("%s at %02d:%02d", days, hour, minute)
	case err == nil && fields[1] == "*" && fields[4] == "*":
		return fmt.Sprintf("every hour at minute %d", minute)
	}
	return When(s)
}

// What names what a schedule runs: a job, or its command.
func What(d *schedule.Definition) string {
	if d.Make.Job != "" {
		return "job " + d.Make.Job
	}
	return d.Make.Spec.Text()
}

// With says what else the tasks of a schedule are given beside its job or command: each other field
// of the submission by its JSON, such as "priority 9; place {"nodes":["w3"]}".
func With(d *schedule.Definition) string {
	m := d.Make
	m.Job = ""
	if m.Spec != nil {
		rest := *m.Spec
		if rest.Run != nil {
			run := *rest.Run
			run.Argv, run.Shell = nil, ""
			rest.Run = &run
		}
		rest.Handler = ""
		m.Spec = &rest
	}
	var fields map[string]json.RawMessage
	text, err := value.JSON(m)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return value.Plainly(err).Error() // a definition that was stored can be encoded
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := string(fields[name]); {
		case name == "spec" && (value == `{"run":{}}` || value == "{}"):
		default:
			said = append(said, strings.ReplaceAll(name, "_", " ")+" "+strings.Trim(value, `"`))
		}
	}
	return strings.Join(said, "; ")
}

// ScheduleColumns are those of lists of schedules, at a moment.
func ScheduleColumns(now time.Time) []term.Column[client.ScheduleRow] {
	type row = *client.ScheduleRow
	return []term.Column[client.ScheduleRow]{
		term.Text("SCHEDULE", 0, func(is row) string { return is.Name }),
		term.Text("WHEN", 0, func(is row) string { return When(&is.When) }),
		term.Text("ZONE", 3, func(is row) string { return cmp.Or(is.When.Timezone, "UTC") }),
		term.Text("DST", 1, func(is row) string {
			if plan, err := is.Plan(); err == nil {
				return plan.Policy()
			}
			return is.When.DST
		}),
		term.Text("OVERLAP", 2, func(is row) string { return cmp.Or(is.When.Overlap, job.OverlapAllow) }),
		term.Tints("LAST", 0, func(is row) term.Cell { return runCell(is.Last, now) }),
		term.Tints("MISSED", 0, func(is row) (c term.Cell) {
			if n := is.Missed(); n > 0 {
				c = term.Tinted(fmt.Sprint(n), term.Red)
			}
			return c
		}),
		term.Tints("NEXT", -1, func(is row) term.Cell { return nextCell(is, now) }),
		term.Text("RUNS", 4, func(is row) string { return term.Cut(What(&is.Definition), 60) }),
	}
}

// nextCell shows when the next tick comes, on the clock of the schedule's zone.
func nextCell(is *client.ScheduleRow, now time.Time) term.Cell {
	plan, err := is.Plan()
	switch {
	case is.Paused != nil:
		return term.Tinted(strings.TrimSuffix("paused: "+is.Paused.Reason, ": "), term.Yellow)
	case err != nil || is.Next == nil:
		return term.Plain("never")
	}
	return term.Plain(fmt.Sprintf("%s (in %s)", ClockIn(is.Next.Due, plan.Zone()), Span(max(is.Next.Due.Sub(now), 0).Truncate(time.Second))))
}

// runCell shows the state of the latest task, and since when.
func runCell(r *client.Run, now time.Time) term.Cell {
	if r == nil {
		return term.Cell{}
	}
	c := StateCell(r.State)
	c.Text = State(r.State, r.Reason)
	if since := Age(r.Since, now); r.State.Terminal() {
		c.Text += " " + since + " ago"
	} else {
		c.Text += " for " + since
	}
	return c
}

// JobColumns are those of lists of jobs, at a moment.
func JobColumns(now time.Time) []term.Column[client.JobRow] {
	type row = *client.JobRow
	return []term.Column[client.JobRow]{
		term.Text("JOB", 0, func(j row) string { return j.Name }),
		term.Text("TITLE", 0, func(j row) string { return term.Cut(j.Title, 40) }),
		term.Text("QUEUE", 4, func(j row) string { return cmp.Or(j.Queue, placement.DefaultQueue) }),
		term.Text("SCHEDULE", 0, func(j row) string { return strings.Join(j.Schedules, ", ") }),
		term.Text("NEXT", 5, func(j row) string {
			if j.Next.IsZero() {
				return ""
			}
			return "in " + Span(max(j.Next.Sub(now), 0).Truncate(time.Second))
		}),
		term.Tints("LAST", 0, func(j row) term.Cell { return runCell(j.Last, now) }),
		term.Number("REVISION", 2, func(j row) string { return fmt.Sprint(j.Revision) }),
		ages("CHANGED", 3, now, func(j row) time.Time { return j.Changed }),
		term.Text("LABELS", 1, func(j row) string { return Pairs(j.Labels) }),
		term.Text("RUNS", 0, func(j row) string { return term.Cut(j.Text(), 80) }),
	}
}

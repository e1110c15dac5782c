package wording

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// scheduleFact describes a fact of a schedule.
func scheduleFact(event task.ScheduleEvent) string {
	switch e := event.(type) {
	case task.ScheduleFired:
		return Words(stamped("tick", e.Tick), e.Detail)
	case task.ScheduleAdmitted:
		return Words(stamped("tick", e.Tick), e.Trigger, "task "+string(e.Made), e.Detail)
	case task.ScheduleSkipped:
		if e.Count > 1 {
			return Words(fmt.Sprintf("%s from %s to %s", Plural(e.Count, "tick"), value.Clock(e.Tick.UTC()), value.Clock(e.Until.UTC())), e.Reason, e.Detail)
		}
		return Words(stamped("tick", e.Tick), e.Reason, e.Detail)
	case task.ScheduleQueued:
		return Words(stamped("tick", e.Tick), e.Trigger, e.Detail)
	}
	return ""
}

func originText(o task.Origin) string {
	if o.Schedule == "" {
		return ""
	}
	text := fmt.Sprintf("schedule %s, tick %s", o.Schedule, value.Clock(o.Tick.UTC()))
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

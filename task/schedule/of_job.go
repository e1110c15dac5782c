package schedule

import (
	"fmt"

	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// OfJob returns the schedules that come with a job.
func OfJob(j *job.Job) []Definition {
	var all []Definition
	for _, s := range j.AllSchedules() {
		all = append(all, Definition{Name: s.Name, When: s.Schedule, Make: birth.Submission{Job: j.Name}, OfJob: true})
	}
	return all
}

// ValidateOfJob refuses invalid schedules of a job, and those that also refuses, unless it is nil.
// The error names the field; list is what the field of several is called, "timetable" in JSON.
func ValidateOfJob(j *job.Job, list string, also func(Definition) error) error {
	if j.Schedule != nil && len(j.Timetable) > 0 {
		return fmt.Errorf("schedule and timetable are both set: put all of them into timetable")
	}
	if len(j.Timetable) > job.MaxSchedules {
		return fmt.Errorf("%s has %d items, want at most %d", list, len(j.Timetable), job.MaxSchedules)
	}
	var faults []error
	first := map[string]int{}
	for i, is := range OfJob(j) {
		field := "schedule."
		if j.Schedule == nil {
			field = fmt.Sprintf("%s[%d].", list, i)
			if before, double := first[is.Name]; double {
				faults = append(faults, fmt.Errorf("%sname is %s, that of %s[%d]", field, is.Name, list, before))
			}
			first[is.Name] = i
		}
		wrong := value.JoinFaults(value.Under("name: ", value.ValidName("schedule", is.Name)), Validate(is.Name, is.When))
		if wrong == nil && also != nil {
			wrong = also(is)
		}
		faults = append(faults, value.Under(field, wrong))
	}
	return value.JoinFaults(faults...)
}

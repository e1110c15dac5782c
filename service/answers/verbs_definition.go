package answers

import (
	"millrace/events/jet/rights"
	"millrace/service/client"
)

// removes are other names of the commands that remove something.
var removes = []string{"del", "delete", "remove"}

// definitionVerbs change what lies under names: schedules, jobs, calendars, bundles of files.
var definitionVerbs = []*Endpoint{
	on(rights.SchedulePause, `keep a schedule from making tasks: {"name":"nightly","reason":"…"}`, toggle("paused", (*client.Client).PauseSchedule), "no-schedule").at("POST /schedules/{name}/pause").typed(&Command{
		Use: "schedule pause NAME...", Aliases: []string{"disable", "stop"}, Short: "Keep schedules from making tasks",
	}),
	on(rights.ScheduleResume, `let it make tasks again, from now on: {"name":"nightly"}`, toggle("resumed", (*client.Client).ResumeSchedule), "no-schedule").at("POST /schedules/{name}/resume").typed(&Command{
		Use: "schedule resume NAME...", Aliases: []string{"enable", "unpause"}, Short: "Let schedules make tasks again, from now on",
	}),
	on(rights.ScheduleRemove, `remove a schedule; its tasks stay: {"name":"nightly"}`, removing("schedule", (*client.Client).RemoveSchedule), "no-schedule", "changed").at("DELETE /schedules/{name}").typed(&Command{
		Use: "schedule rm NAME...", Aliases: removes, Short: "Remove schedules; their tasks stay",
		Asks: "remove", Foresee: (*Service).foreseeSchedule,
	}),
	on(rights.JobRemove, `remove a job and the schedules that came with it; its tasks stay: {"name":"hello"}`, (*Service).removeJob, "no-job", "job-in-use", "changed").at("DELETE /jobs/{name}").typed(&Command{
		Use: "job rm NAME...", Aliases: removes, Short: "Remove jobs and the schedules that came with them; their tasks stay",
		Asks: "remove", Foresee: (*Service).foreseeJob,
	}),
	on(rights.BreakerReset, `close the breaker of a job: {"name":"hello","reason":"…"}`, (*Service).resetBreaker, "no-job").at("POST /jobs/{name}/breaker/reset").typed(&Command{
		Use: "job breaker reset JOB", Aliases: []string{"close"}, Short: "Close the breaker of a job",
		Long: `Closes the breaker of a job, so that its tasks start again. Tasks that it held start
when their hold ends. Earlier failures no longer count.`,
		Reason: "reset on the command line",
	}),
	on(rights.CalendarRemove, `remove a calendar: {"name":"office"}`, removing("calendar", (*client.Client).RemoveCalendar), "no-calendar", "changed").at("DELETE /calendars/{name}").typed(&Command{
		Use: "calendar rm NAME...", Aliases: removes, Short: "Remove calendars", Asks: "remove",
	}),
	on(rights.FilesRemove, `remove the name of a bundle; gc removes what nothing needs: {"name":"app"}`, removing("name", (*client.Client).RemoveBundle), "no-files", "changed").at("DELETE /files/{name}").typed(&Command{
		Use: "files rm NAME...", Aliases: removes, Short: "Remove names; the next gc removes versions that are not needed",
	}),
}

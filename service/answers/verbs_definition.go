package answers

import (
	"millrace/events/jet/rights"
	"millrace/service/client"
	"millrace/task/schedule"
)

// removes are other names of the commands that remove something.
var removes = []string{"del", "delete", "remove"}

// definitionVerbs change what lies under names: schedules, jobs, calendars, bundles of files.
var definitionVerbs = []*Endpoint{
	on(rights.SchedulePause, `keep a schedule from making tasks: {"name":"nightly","reason":"…"}`, toggle("paused", (*client.Client).PauseSchedule), "no-schedule").at("POST /schedules/{name}/pause").typed(&Command{
		Use: "schedule pause NAME...", Aliases: []string{"disable", "stop"}, Short: "Keep schedules from making tasks",
	}).button(Button{
		Why: "It makes no tasks until it is resumed. What runs goes on.", Has: when(func(s *schedule.Stored) bool { return s.Paused == nil }),
	}),
	on(rights.ScheduleResume, `let it make tasks again, from now on: {"name":"nightly"}`, toggle("resumed", (*client.Client).ResumeSchedule), "no-schedule").at("POST /schedules/{name}/resume").typed(&Command{
		Use: "schedule resume NAME...", Aliases: []string{"enable", "unpause"}, Short: "Let schedules make tasks again, from now on",
	}).button(Button{
		Why: "It makes tasks again, from now on. What passed meanwhile is not made up for.", Has: when(func(s *schedule.Stored) bool { return s.Paused != nil }),
	}),
	on(rights.ScheduleRemove, `remove a schedule; its tasks stay: {"name":"nightly"}`, removing("schedule", (*client.Client).RemoveSchedule), "no-schedule", "changed").at("DELETE /schedules/{name}").typed(&Command{
		Use: "schedule rm NAME...", Aliases: removes, Short: "Remove schedules; their tasks stay",
		Asks: "remove", Foresee: (*Service).foreseeSchedule,
	}).button(Button{
		Why: "The schedule goes, and no tasks are made any more; its tasks and its history stay.", Has: when(func(s *schedule.Stored) bool { return !s.OfJob }),
	}),
	on(rights.JobRemove, `remove a job and the schedules that came with it; its tasks stay: {"name":"hello"}`, (*Service).removeJob, "no-job", "job-in-use", "changed").at("DELETE /jobs/{name}").typed(&Command{
		Use: "job rm NAME...", Aliases: removes, Short: "Remove jobs and the schedules that came with them; their tasks stay",
		Asks: "remove", Foresee: (*Service).foreseeJob,
	}).button(Button{
		Why: "The job goes, and its schedule with it; its tasks and its history stay. Schedules of their own that make its tasks fail from then on.",
	}),
	on(rights.BreakerReset, `close the breaker of a job: {"name":"hello","reason":"…"}`, (*Service).resetBreaker, "no-job").at("POST /jobs/{name}/breaker/reset").typed(&Command{
		Use: "job breaker reset JOB", Aliases: []string{"close"}, Short: "Close the breaker of a job",
		Long: `Closes the breaker of a job, so that its tasks start again. Tasks that it held start
when their hold ends. Earlier failures no longer count.`,
		Reason: "reset on the command line",
	}).button(Button{
		On: []string{"breakers"}, Label: "Close breaker", Why: "Tasks that come now start at once. Those held back already start when they were to be tried.",
	}),
	on(rights.CalendarRemove, `remove a calendar: {"name":"office"}`, removing("calendar", (*client.Client).RemoveCalendar), "no-calendar", "changed").at("DELETE /calendars/{name}").typed(&Command{
		Use: "calendar rm NAME...", Aliases: removes, Short: "Remove calendars", Asks: "remove",
	}).button(Button{
		Why: "The calendar goes; its history stays. Tasks that go by it wait until there is a calendar of this name again, and new ones are refused.",
	}),
	on(rights.FilesRemove, `remove the name of a bundle; gc removes what nothing needs: {"name":"app"}`, removing("name", (*client.Client).RemoveBundle), "no-files", "changed").at("DELETE /files/{name}").typed(&Command{
		Use: "files rm NAME...", Aliases: removes, Short: "Remove names; the next gc removes versions that are not needed",
	}),
}

package job

import (
	"fmt"
	"slices"
	"time"

	"millrace/task/value"
)

// Schedule says when tasks are made, by exactly one of Cron, Every and At. Package schedule has the
// arithmetic and the rules of each field.
type Schedule struct {
	// Cron is an expression with five fields (minute, hour, day of month, month, day of week), with
	// six fields (seconds first), or a descriptor such as @daily. It may have lists, ranges, steps,
	// names, L, W, # and H (a value derived from the schedule's name). If both day fields are
	// restricted, a day that matches either counts; if one of them begins with *, a day must match
	// both, as in cron.
	Cron string `json:"cron,omitempty" redact:"keep" read:"line" short:"text"`
	// Every is the time between planned runs, counted from Start, or from when the schedule was
	// first stored; it never drifts. At least 1s.
	Every value.Duration `json:"every,omitempty"`
	// At is the only planned run: RFC 3339, or a time in Timezone such as "2026-03-01 12:00".
	At string `json:"at,omitempty" redact:"keep" read:"line"`
	// Timezone is the IANA name of the zone in which Cron, At, Start, End and Calendar are read.
	// Default UTC.
	Timezone string `json:"timezone,omitempty" redact:"keep" read:"line"`
	// Start and End bound the planned runs, inclusively, in the form of At; a bare date means its
	// midnight.
	Start string `json:"start,omitempty" redact:"keep" read:"line"`
	End   string `json:"end,omitempty" redact:"keep" read:"line"`
	// CatchUp is what happens to planned runs that passed while the server was away: [CatchUpLast], the
	// default, [CatchUpNone] or [CatchUpAll].
	CatchUp string `json:"catchup,omitempty" redact:"word" words:"last,none,all"`
	// CatchUpWindow is the largest age of a missed planned run that is still caught up. Default 24h.
	CatchUpWindow value.Duration `json:"catchup_window,omitempty"`
	// Overlap is what happens to a planned run while tasks of earlier planned runs have not ended. Default
	// [OverlapAllow].
	Overlap string `json:"overlap,omitempty" redact:"word" words:"allow,skip,queue,cancel_old,replace"`
	// Depth is how many planned runs may wait with [OverlapQueue]; further planned runs are skipped. Default 1,
	// at most [MaxDepth].
	Depth int `json:"depth,omitempty"`
	// Jitter delays each planned run's task by a time between 0 and this. The delay follows from that run,
	// so it is always the same. It never reaches the next planned run. Default 0.
	Jitter value.Duration `json:"jitter,omitempty" least:"0"`
	// Spread delays all planned runs of the schedule by one time between 0 and this, derived from its
	// name, so that schedules with the same expression are not due together. Default 0.
	Spread value.Duration `json:"spread,omitempty" least:"0"`
	// DST is what happens when clocks change: [DSTOnce], [DSTSkip], [DSTTwice] or [DSTShift].
	// Default [DSTOnce], or [DSTTwice] if Cron leaves the hour open: then it means a number of
	// minutes of real time.
	DST string `json:"dst,omitempty" redact:"word" words:"once,skip,twice,shift"`
	// Calendar lists periods without planned runs, such as "2026-12-24..2026-12-26", "12-31", "sat,sun" or
	// "mon-fri 22:00-06:00". A planned run is left out if all parts of any entry match.
	Calendar []string `json:"calendar,omitempty" redact:"keep"`
	// PauseAfter pauses the schedule after this many failed tasks in a row. Default 0: never.
	PauseAfter int `json:"pause_after,omitempty" least:"0"`
}

// NamedSchedule is one of several schedules of a job.
type NamedSchedule struct {
	// Name is the schedule's: 1 to 64 letters, digits, '_' or '-'. Default: the job's name for the
	// first one, and that with a hyphen and the place in the list for the others, such as backup-2.
	Name string `json:"name,omitempty" redact:"keep" names:"schedule"`
	Schedule
}

// MaxSchedules bounds how many schedules a job has.
const MaxSchedules = 100

// AllSchedules returns the schedules of the job with their names: the one of Schedule, or those of
// Timetable.
func (j *Job) AllSchedules() []NamedSchedule {
	if j.Schedule != nil {
		return []NamedSchedule{{j.Name, *j.Schedule}}
	}
	all := slices.Clone(j.Timetable)
	for i := range all {
		switch {
		case all[i].Name != "":
		case i == 0:
			all[i].Name = j.Name
		default:
			all[i].Name = fmt.Sprintf("%s-%d", j.Name, i+1)
		}
	}
	return all
}

// Values of CatchUp: what happens to ticks that passed while the server was away.
const (
	CatchUpNone = "none" // no missed tick gets a task
	CatchUpLast = "last" // the latest one gets a task
	CatchUpAll  = "all"  // all get one, the oldest first
)

// Values of Overlap: what happens to a tick while tasks of earlier ticks have not ended.
const (
	OverlapAllow     = "allow"      // its task is made nevertheless
	OverlapSkip      = "skip"       // it is left out
	OverlapQueue     = "queue"      // its task is made when they have ended
	OverlapCancelOld = "cancel_old" // they are cancelled, and its task is made when they have ended
	OverlapReplace   = "replace"    // they are cancelled, and its task is made at once
)

// Values of DST: what happens to a time of day that a change of clocks leaves out or repeats.
const (
	// DSTOnce makes each tick happen once: a skipped one at the first moment after the gap, a
	// repeated one the first time.
	DSTOnce = "once"
	// DSTSkip drops skipped ticks; a repeated one happens the first time.
	DSTSkip = "skip"
	// DSTTwice follows the clock: a skipped tick does not happen, a repeated one happens twice.
	DSTTwice = "twice"
	// DSTShift moves a skipped tick by the length of the gap (02:30 becomes 03:30); a repeated one
	// happens the first time.
	DSTShift = "shift"
)

// The values of [Schedule] fields, the default first.
var (
	CatchUps = value.WordsOf[Schedule]("catchup")
	Overlaps = value.WordsOf[Schedule]("overlap")
	DSTs     = value.WordsOf[Schedule]("dst")
)

// Defaults and bounds of [Schedule].
const (
	DefaultCatchUpWindow = 24 * time.Hour
	DefaultDepth         = 1
	MaxDepth             = 100
	MinEvery             = time.Second
)

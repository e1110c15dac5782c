package job

import (
	"time"

	"millrace/task/value"
)

// Schedule says when tasks are made: by exactly one of Cron, Every and At. Package
// schedule has the arithmetic and the rules of each field.
type Schedule struct {
	// Cron is an expression of five fields (minute, hour, day of month, month, day of week), of
	// six with seconds before them, or a descriptor such as @daily. Lists, ranges, steps, names,
	// L, W, # and H (a value that the schedule's name decides) are understood. Where both
	// days are restricted, either is enough, as in every cron; only a bare * or ? restricts nothing.
	Cron string `json:"cron,omitempty"`
	// Every is the time between ticks, counted from Start, or from when the schedule was
	// first stored; it never drifts. At least 1s.
	Every value.Duration `json:"every,omitempty"`
	// At is the only tick: RFC 3339, or a time of Timezone such as "2026-03-01 12:00".
	At string `json:"at,omitempty"`
	// Timezone is the IANA name of the zone whose clock Cron, At, Start, End and Calendar
	// follow. Default UTC.
	Timezone string `json:"timezone,omitempty"`
	// Start and End bound the ticks, themselves included, in the form of At; a bare date is its midnight.
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
	// CatchUp is what becomes of ticks that passed while nothing could fire: [CatchUpLast], the
	// default, [CatchUpNone] or [CatchUpAll].
	CatchUp string `json:"catchup,omitempty"`
	// CatchUpWindow is how old a missed tick may be to be caught up with. Default 24h.
	CatchUpWindow value.Duration `json:"catchup_window,omitempty"`
	// Overlap is what becomes of a tick while tasks of earlier ticks have not ended. Default
	// [OverlapAllow].
	Overlap string `json:"overlap,omitempty"`
	// Depth is how many ticks may wait with [OverlapQueue]; what comes beyond is skipped.
	// Default 1, at most [MaxDepth].
	Depth int `json:"depth,omitempty"`
	// Jitter delays each tick's task by something between 0 and this, by a rule that gives the same
	// for the same tick. It never reaches the next tick. Default 0.
	Jitter value.Duration `json:"jitter,omitempty"`
	// Spread delays all ticks of the schedule by one time between 0 and this, which its name decides,
	// so that schedules with the same expression do not fire at once. Default 0.
	Spread value.Duration `json:"spread,omitempty"`
	// DST is what happens when clocks are changed: [DSTOnce], [DSTSkip], [DSTTwice] or [DSTShift]. Default
	// [DSTOnce], or [DSTTwice] if Cron leaves the hour open: then it means so many minutes of real time.
	DST string `json:"dst,omitempty"`
	// Calendar lists periods in which nothing fires, such as "2026-12-24..2026-12-26", "12-31",
	// "sat,sun" or "mon-fri 22:00-06:00": a tick is left out if all parts of any of them hold.
	Calendar []string `json:"calendar,omitempty"`
	// PauseAfter pauses the schedule when so many of its tasks have failed in a row. Default 0: never.
	PauseAfter int `json:"pause_after,omitempty"`
}

// What becomes of ticks that passed while nothing could fire.
const (
	CatchUpNone = "none" // none is made up for
	CatchUpLast = "last" // the latest one is
	CatchUpAll  = "all"  // all are, the oldest first
)

// What becomes of a tick while tasks of earlier ticks have not ended.
const (
	OverlapAllow     = "allow"      // its task is made all the same
	OverlapSkip      = "skip"       // it is left out
	OverlapQueue     = "queue"      // its task is made when they have ended
	OverlapCancelOld = "cancel_old" // they are cancelled, and its task is made when they have ended
	OverlapReplace   = "replace"    // they are cancelled, and its task is made at once
)

// What happens to a time of day that a change of clocks leaves out or repeats.
const (
	// DSTOnce makes each tick happen once: one that is left out at the first moment after
	// the gap, one that is repeated the first time.
	DSTOnce = "once"
	// DSTSkip leaves out what is left out; what is repeated happens the first time.
	DSTSkip = "skip"
	// DSTTwice follows the clock: what is left out does not happen, what is repeated happens twice.
	DSTTwice = "twice"
	// DSTShift moves what is left out by the length of the gap (02:30 becomes 03:30); what is
	// repeated happens the first time.
	DSTShift = "shift"
)

// Words that fields of [Schedule] take, the default first.
var (
	CatchUps = []string{CatchUpLast, CatchUpNone, CatchUpAll}
	Overlaps = []string{OverlapAllow, OverlapSkip, OverlapQueue, OverlapCancelOld, OverlapReplace}
	DSTs     = []string{DSTOnce, DSTSkip, DSTTwice, DSTShift}
)

// Defaults and bounds of [Schedule].
const (
	DefaultCatchUpWindow = 24 * time.Hour
	DefaultDepth         = 1
	MaxDepth             = 100
	MinEvery             = time.Second
)

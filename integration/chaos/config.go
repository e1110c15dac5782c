package chaos

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/streams"
	"millrace/integration/load"
	"millrace/task/duties"
)

// Config says what to break and how. Zero fields mean the default, where there is one.
type Config struct {
	// Program is the path of millrace, which servers and workers run. The NATS server and what pushes
	// folders are processes of this program.
	Program string
	// Older is a folder with millrace and millrace-chaos of another version, for the fault [Older].
	Older string
	// Settings are flags for every scheduler and worker, so that all agree. Given are those of them
	// that are no defaults: the older program has its own defaults, and may not know all settings.
	Settings, Given []string
	// Sync is how often the NATS server flushes to disk: "always" or a duration. Default "1s".
	Sync string
	// Layout is how the streams are made; its AckWait is the lease, at least 1s.
	Layout streams.Layout
	// Rules are the bounds by which deadlines are judged; they must match Settings.
	Rules duties.Settings
	// NodeTTL is how long the heartbeat of a silent node lasts, and Grace how long a worker gets to
	// end; both must match Settings.
	NodeTTL, Grace time.Duration

	// Seed and Scenario choose the plan, unless Steps are given. In any case Scenario is the name
	// in the report.
	Seed     uint64
	Scenario string
	Steps    []Step
	// Duration is the time of load and faults. Default 60s; at least 5s.
	Duration time.Duration
	// Workers and Schedulers are the numbers of processes. Defaults 3 and 2.
	Workers, Schedulers int
	// Slots is how many tasks a worker runs at a time. Default 8.
	Slots int
	// Rate is how many tasks are submitted per second. Default 10.
	Rate float64
	// Tasks bounds the number of tasks. Default 0: no bound.
	Tasks int
	// Settling is how long after the last fault no task may end before the unfinished ones count as
	// stuck. Default 20s and four leases.
	Settling time.Duration
	// Keep keeps the data.
	Keep bool

	// Dial connects to a NATS server.
	Dial func(url, name string) (*nats.Conn, error)
	// Progress is called with what happens, one call at a time. Default: no call.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	// At is the time since the load began, negative before.
	At time.Duration
	// What names the fault that has just begun or ended; "" if only time has passed.
	What string
	// Submitted counts acknowledged submissions; Running and Ended count tasks in the log.
	Submitted, Running, Ended int
}

func (c Config) withDefaults() (Config, error) {
	if c.Sync == "" {
		c.Sync = "1s"
	}
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&c.Workers, 3)
	set(&c.Schedulers, 2)
	set(&c.Slots, 8)
	if c.Rate == 0 {
		c.Rate = 10
	}
	if c.Duration == 0 {
		c.Duration = time.Minute
	}
	if c.Settling == 0 {
		c.Settling = 20*time.Second + 4*c.Layout.AckWait
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	switch {
	case c.Dial == nil:
		return c, errors.New("chaos: Dial must be set")
	case c.Layout.AckWait < time.Second || c.NodeTTL < time.Second:
		return c, fmt.Errorf("chaos: AckWait is %v and NodeTTL %v, want at least 1s each", c.Layout.AckWait, c.NodeTTL)
	case c.Rate < 0 || c.Rate > 1000:
		return c, fmt.Errorf("the rate is %v, want more than 0 and at most 1000 tasks in a second", c.Rate)
	case c.Workers < 1 || c.Workers > 64 || c.Schedulers < 1 || c.Schedulers > 16 || c.Slots < 1:
		return c, fmt.Errorf("%d workers with %d slots and %d schedulers: want 1 to 64 workers with at least 1 slot, and 1 to 16 schedulers", c.Workers, c.Slots, c.Schedulers)
	case c.Tasks < 0:
		return c, fmt.Errorf("the number of tasks is %d, want 0 (no bound) or more", c.Tasks)
	}
	if c.Steps != nil {
		for _, s := range c.Steps {
			if err := s.validate(size{c.Workers, c.Schedulers}); err != nil {
				return c, err
			}
			c.Duration = max(c.Duration, s.End())
		}
		return c.patient(), nil
	}
	var err error
	c.Steps, err = Plan(c.frame())
	return c.patient(), err
}

// patient lets tasks wait longer for files: the mark of a garbage collection that the server's
// death interrupts is valid for a minute, and pushes wait for that.
func (c Config) patient() Config {
	if c.files() {
		c.Settling += time.Minute
	}
	return c
}

func (c *Config) frame() Frame {
	return Frame{
		Seed: c.Seed, Scenario: c.Scenario, Duration: c.Duration, Workers: c.Workers, Schedulers: c.Schedulers,
		Lease: c.Layout.AckWait, Silence: c.NodeTTL,
	}
}

// files tells whether any step is about files.
func (c *Config) files() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Target == Pusher || s.Target == Cache })
}

// fills tells whether the disk of the server is filled.
func (c *Config) fills() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Fault == Fill })
}

// mixes tells whether any process runs the older program.
func (c *Config) mixes() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Fault == Older })
}

// clocks tells whether any step is about clocks, those of callers included.
func (c *Config) clocks() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Target == Callers })
}

// Planned returns the steps that Run would take, without doing anything.
func (c Config) Planned() ([]Step, error) {
	c, err := c.withDefaults()
	return c.Steps, err
}

// Verdict is the result of a run.
type Verdict string

// The verdicts.
const (
	// OK: no promise was broken.
	OK Verdict = "ok"
	// Broken: a promise was broken.
	Broken Verdict = "broken"
	// Unknown: the log could not be read to its end.
	Unknown Verdict = "unknown"
)

// Report is what a run has shown.
type Report struct {
	Scenario string  `json:"scenario"`
	Seed     uint64  `json:"seed"`
	Verdict  Verdict `json:"verdict"`
	// Tasks is how many tasks are in the log, Acknowledged how many submissions were acknowledged.
	Tasks        int `json:"tasks"`
	Acknowledged int `json:"acknowledged"`
	// States counts the tasks by their state at the end.
	States map[string]int `json:"states"`
	// Lost are acknowledged submissions that are not in the log, DuplicatedResults tasks with two
	// accepted ends, Stuck those without an end.
	Lost              int `json:"lost"`
	DuplicatedResults int `json:"duplicated_results"`
	Stuck             int `json:"stuck"`
	// Runs is how many attempts have recorded themselves when they ran, and Overlaps how many of
	// them began while another one of the same task still ran.
	Runs     int `json:"runs"`
	Overlaps int `json:"overlaps"`
	// Limits is what limits have shown outside the log.
	Limits LimitsReport `json:"limits"`
	// Decisions is how many decisions the log has, and Unjudged how many of them could not be made
	// again.
	Decisions int `json:"decisions"`
	Unjudged  int `json:"unjudged"`
	// Faults counts the injected faults; one with several targets counts for each.
	Faults map[Fault]int `json:"faults"`
	// The figures of [Figures].
	Takeovers    int     `json:"takeovers"`
	LostAttempts int     `json:"lost_attempts"`
	LateResults  int     `json:"late_results"`
	Detection    Latency `json:"detection_ms"`
	Takeover     Latency `json:"takeover_ms"`
	Reconnect    Latency `json:"reconnect_ready_ms"`
	Start        Latency `json:"start_ms"`
	SweepRepairs int     `json:"sweep_repairs"`
	// Times is what due times and ticks have shown, if the submitters' clock was wrong.
	Times *TimesReport `json:"times,omitempty"`
	// Files is what tasks with files have shown, if there were any.
	Files *FilesReport `json:"files,omitempty"`
	// Disk says how the disk of the server was filled, if it was: that depends on the machine.
	Disk string `json:"disk,omitempty"`
	// Seconds is how long it took until the last task had ended.
	Seconds float64 `json:"seconds"`
	// Load is the load's result from the log, nil if it was not read, and Breaks what was broken
	// when. Both are for a page.
	Load   *load.Result `json:"-"`
	Breaks []load.Fault `json:"-"`
	// Incident is the incident file with the log, if a promise is broken.
	Incident string `json:"incident,omitempty"`
	// Broken says which promises are broken, and where to look. Odd lists what breaks no promise
	// but needs an explanation.
	Broken []string `json:"broken"`
	Odd    []string `json:"odd"`
	// Dir is where the data is, if it was kept.
	Dir string `json:"dir,omitempty"`
}

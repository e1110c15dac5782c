// Package settings adds up the settings of a process: the defaults of a profile, a file, the
// environment, flags.
//
// It adapts garbage collection to what a process does.
//
// It parses what users type: commands, arguments and flags.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"millrace/events/jet"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/scheduler"
	"millrace/service/httpapi"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
	"millrace/worker/process/child"
)

// Profiles choose the set of defaults.
const (
	Dev  = "dev"
	Prod = "prod"
)

// Values are the settings on which the processes of an installation agree.
type Values struct {
	Profile string
	// StartDeadline is how long a task may wait while no node serves its queue; 0 for ever.
	StartDeadline time.Duration
	// AckWait is how long a silent worker keeps its lease. At least 1s. It has an effect only when
	// the streams are made.
	AckWait time.Duration
	// Beat is how often a node writes its heartbeat; a third of NodeTTL or less allows two lost
	// ones.
	Beat time.Duration
	// NodeTTL is how long a heartbeat lasts; whole seconds, longer than Beat.
	NodeTTL time.Duration
	// RetireAfter is how long a node may be offline before it retires by itself; 0 for ever.
	RetireAfter time.Duration
	// Sweep is how often the scheduler looks for deadlines that have passed.
	Sweep time.Duration
	// Grace is how long running tasks get to end when their worker shuts down.
	Grace time.Duration
	// Flap is the score at which a node that comes and goes is quarantined, and FlapRelease the one
	// below which it is released; see node.FlapPolicy.
	Flap node.FlapPolicy
	// SyncAlways flushes every write of an embedded server before it is acknowledged; else
	// SyncInterval bounds how much is lost if the machine fails.
	SyncAlways   bool
	SyncInterval time.Duration
	// Replicas is the number of servers that hold each message: 1, 3 or 5. It has an effect only
	// when the streams are made.
	Replicas int
	// Metrics is where a long-lived process serves its metrics: host:port, where port 0 means a
	// free one and an empty host all addresses of the machine. "" for nowhere. Two processes of a
	// machine need two addresses.
	Metrics string
	// HTTP says where and for which callers a server answers requests over HTTP; its Address is ""
	// for nowhere.
	HTTP httpapi.Config
	// Spool is where a worker keeps the output and reports of tasks that go on while NATS is away;
	// "" for a folder of the user's. SpoolLimit is how many bytes of output they may keep there
	// together; see worker.Config.
	Spool      string
	SpoolLimit int64
	// Ping is how often a process asks the NATS server whether it is there; three in a row without an
	// answer end the connection, and another one is made. See jet.ConnectConfig.
	Ping time.Duration
	// LaneIdle is how long the server keeps an unused consumer for tasks with a priority, a key or
	// labels. At least 2h.
	LaneIdle time.Duration
	// MaxSelectors is how many different requirements of labels waiting tasks may have at one time.
	MaxSelectors int
	// TaskOutput and TaskRecords are how many bytes of an attempt's output a worker keeps, and how
	// many of records it may produce; worker.NoBound for no bound. See worker.Config.
	TaskOutput, TaskRecords int64
	// Store is how many bytes the streams may hold together, 0 for what the server has room for;
	// Sizes is how many of these each stream beside the log has. See streams.Sizes.
	Store int64
	Sizes streams.Sizes
	// Memory is how many bytes a long-lived process may use before it collects garbage at any cost,
	// 0 for four fifths of what its control group or machine has. A server needs about 400 bytes
	// for each task that has ended, and 600 for each that is due later.
	Memory int64
	// Runtimes are the programs by which a worker runs images, the preferred one first.
	Runtimes []string
	// NewPrivileges lets tasks gain rights by what they start; see process.Config.Elevate.
	NewPrivileges bool
	// Confine is what else tasks lose of the rights of the worker's user.
	Confine child.Confinement
	// LogKeep is how long a server keeps the output of tasks after their end.
	LogKeep scheduler.Policy
	// DataKeep is the same for their records.
	DataKeep scheduler.Policy
	// KeepAge is how long a task is kept after its end, 0 for ever, and KeepQueues is that for tasks of
	// some queues; KeepTasks is how many ended tasks are kept at most, 0 for any number.
	KeepAge    time.Duration
	KeepQueues map[string]time.Duration
	KeepTasks  int
	// Archive is where a server keeps what the log forgets ([ParseArchive]); "" for nowhere.
	Archive string
	// Notify is the file of whom a server tells, and of what ([notices.Config]); "" for nobody.
	Notify string
}

// defaultMemory is the default of the setting memory, in bytes: enough for a million tasks.
const defaultMemory = 1 << 30

// Slack is how long a step between two writes may take before another process repeats it, and
// timerSlack the same for a timer: when one of three servers is lost it takes 5 to 11 s until the
// log sources fired timers again.
const (
	Slack      = 2 * time.Second
	timerSlack = 15 * time.Second
)

// Task returns the part of the settings that the rules of tasks need.
func (s *Values) Task() duties.Settings {
	return duties.Settings{StartDeadline: s.StartDeadline, AckWait: s.AckWait, Slack: Slack, Timer: timerSlack}
}

// Nodes returns the part of the settings that the rules of nodes need.
func (s *Values) Nodes() node.Settings {
	return node.Settings{TTL: s.NodeTTL, RetireAfter: s.RetireAfter}
}

// judging are the settings by which it is judged what must happen to tasks and nodes, and by when.
var judging = map[string]bool{"start_deadline": true, "node_ttl": true, "node_retire_after": true, "beat": true, "sweep": true, "grace": true}

// Judging returns the texts of the settings by which it is judged what must happen to tasks and
// nodes, and by when. [Values.Take] reads them.
func (s *Values) Judging() map[string]string { return s.texts(judging) }

// Keeping returns the texts of the settings by which what has ended is kept.
func (s *Values) Keeping() map[string]string {
	return s.texts(map[string]bool{"keep_age": true, "keep_queues": true, "keep_tasks": true})
}

func (s *Values) texts(of map[string]bool) map[string]string {
	is := map[string]string{}
	for i := range All {
		if d := &All[i]; of[d.Name] {
			is[d.Name] = d.Text(s)
		}
	}
	return is
}

// Margin is how long after a deadline its fact may come: two sweeps, their duration, and differing
// clocks.
func (s *Values) Margin() time.Duration { return 2*s.Sweep + Slack + 3*time.Second }

// Layout returns the settings by which streams are made.
func (s *Values) Layout() streams.Layout {
	return streams.Layout{Replicas: s.Replicas, SyncAlways: s.SyncAlways, AckWait: s.AckWait}
}

// Take sets some settings from their texts, such as those of another process; it skips unknown
// names.
func (s *Values) Take(texts map[string]string) error {
	for i := range All {
		if text, ok := texts[All[i].Name]; ok {
			if err := All[i].read(s, text); err != nil {
				return fmt.Errorf("%s: %w", All[i].Name, err)
			}
		}
	}
	return nil
}

// Setting describes one setting: its name, its defaults and its text form.
type Setting struct {
	Name      string // in the file; the flag has '-' for '_', the environment MILLRACE_ before
	Usage     string
	dev, prod string
	processes Processes // which processes it is for; none means all
	read      func(s *Values, text string) error
	Text      func(s *Values) string
}

// Processes are kinds of long-lived processes.
type Processes int

const (
	Serving Processes = 1 << iota // they keep the log and decide
	Working                       // they run tasks
	Staying = Serving | Working
)

// of limits a setting to some processes.
func (d Setting) of(p Processes) Setting {
	d.processes = p
	return d
}

// Flag is the name of its flag, and env that of its variable.
func (d *Setting) Flag() string { return strings.ReplaceAll(d.Name, "_", "-") }
func (d *Setting) env() string  { return "MILLRACE_" + strings.ToUpper(d.Name) }

// All lists all settings but the profile, in the order in which they are shown.
var All = []Setting{
	orOff("start_deadline", "how long a task may wait while no node serves its queue, or off for ever", Off, func(s *Values) *time.Duration { return &s.StartDeadline }).of(Serving),
	period("ack_wait", "how long a silent worker keeps its lease; fixed when the streams are made", "6s", "30s", func(s *Values) *time.Duration { return &s.AckWait }).of(Serving),
	period("beat", "how often a node writes its heartbeat", "2s", "5s", func(s *Values) *time.Duration { return &s.Beat }).of(Working),
	period("node_ttl", "how long a heartbeat lasts", "6s", "15s", func(s *Values) *time.Duration { return &s.NodeTTL }).of(Working),
	orOff("node_retire_after", "how long a node may be offline before it retires by itself, 1h at most if its name looks generated, or off for ever", "24h", func(s *Values) *time.Duration { return &s.RetireAfter }).of(Serving),
	period("sweep", "how often a server looks for deadlines that have passed", "5s", "5s", func(s *Values) *time.Duration { return &s.Sweep }).of(Serving),
	period("grace", "how long running tasks may take to end at shutdown", "15s", "30s", func(s *Values) *time.Duration { return &s.Grace }).of(Working),
	score("flap_limit", "quarantine a node with so many drops shorter than 20s in a few minutes; 0 for never", "10", true, func(s *Values) *float64 { return &s.Flap.Limit }),
	score("flap_release", "release it when half of them were forgotten often enough, every 2m, to be down to this", "3", false, func(s *Values) *float64 { return &s.Flap.Release }),
	{
		processes: Serving, Name: "sync", Usage: "how often an embedded server flushes to disk: always, or a duration", dev: "1s", prod: "always",
		read: ReadSync, Text: func(s *Values) string {
			if s.SyncAlways {
				return "always"
			}
			return s.SyncInterval.String()
		},
	},
	{
		processes: Serving, Name: "replicas", Usage: "on how many NATS servers each message is stored: 1, 3 or 5; fixed when the streams are made", dev: "1", prod: "1",
		read: func(s *Values, text string) (err error) {
			if s.Replicas, err = strconv.Atoi(text); err != nil || s.Replicas != 1 && s.Replicas != 3 && s.Replicas != 5 {
				return fmt.Errorf("want 1, 3 or 5")
			}
			return nil
		},
		Text: func(s *Values) string { return strconv.Itoa(s.Replicas) },
	},
	{
		Name: "metrics", Usage: "address to serve metrics and health at, without authentication: host:port (0 for a free one), or off", dev: Off, prod: Off,
		read: readAddress(func(s *Values) *string { return &s.Metrics }, "127.0.0.1:9464"), Text: func(s *Values) string { return cmp.Or(s.Metrics, Off) },
	},
	{
		processes: Serving, Name: "http", Usage: "address to answer requests over HTTP at: host:port (0 for a free one), or off", dev: DevHTTP, prod: Off,
		read: readAddress(func(s *Values) *string { return &s.HTTP.Address }, DevHTTP), Text: func(s *Values) string { return cmp.Or(s.HTTP.Address, Off) },
	},
	word("http_cert", "file of the TLS certificate for HTTP, read again when it changes", noWord, func(s *Values) *string { return &s.HTTP.Cert }).of(Serving),
	word("http_key", "file of the key of that certificate", noWord, func(s *Values) *string { return &s.HTTP.Key }).of(Serving),
	words("http_name", "names of hosts under which HTTP is asked beside those of loopback, with commas", func(s *Values) *[]string { return &s.HTTP.Names }).of(Serving),
	{
		processes: Serving, Name: "http_proxy_from", Usage: "addresses of proxies in front of HTTP, separated by commas: 10.0.0.5, 10.1.0.0/16", dev: noWord, prod: noWord,
		read: readProxies, Text: func(s *Values) string { return listText(s.HTTP.ProxyFrom, netip.Prefix.String) },
	},
	word("http_user_header", "header in which those proxies name the user", noWord, func(s *Values) *string { return &s.HTTP.UserHeader }).of(Serving),
	word("http_user_role", "role of the users of those proxies: viewer, submitter or operator", string(rights.Viewer), func(s *Values) *string { return (*string)(&s.HTTP.UserRole) }).of(Serving),
	{
		processes: Serving, Name: "http_rate", Usage: "how many requests a second one caller over HTTP may send on average, ten times as many at once, or off", dev: Off, prod: "500",
		read: func(s *Values, text string) (err error) {
			if text == Off {
				s.HTTP.Rate = 0
				return nil
			}
			if s.HTTP.Rate, err = strconv.ParseFloat(text, 64); err != nil || !(s.HTTP.Rate > 0 && s.HTTP.Rate <= httpapi.MaxRate) {
				return fmt.Errorf("want requests a second, such as 100, or off")
			}
			return nil
		},
		Text: func(s *Values) string {
			if s.HTTP.Rate == 0 {
				return Off
			}
			return strconv.FormatFloat(s.HTTP.Rate, 'g', -1, 64)
		},
	},
	word("http_prefix", "path below which a proxy has HTTP, such as /millrace", noWord, func(s *Values) *string { return &s.HTTP.Prefix }).of(Serving),
	word("http_hooks", "folder with the secrets of webhooks, each in a file with the name of its job, or none", noWord, func(s *Values) *string { return &s.HTTP.Hooks }).of(Serving),
	{
		processes: Working, Name: "spool", Usage: "folder for output and reports of tasks with on_disconnect: continue while NATS is away, or auto for one of this user's", dev: ownSpool, prod: ownSpool,
		read: readSpool, Text: func(s *Values) string { return cmp.Or(s.Spool, ownSpool) },
	},
	size("spool_limit", "how many bytes of output a worker's tasks may keep in the spool together", "256MiB", nil, func(s *Values) *int64 { return &s.SpoolLimit }).of(Working),
	period("connection_ping", "how often a connection asks whether NATS is there; three times without an answer, and it is made anew", jet.DefaultPing.String(), jet.DefaultPing.String(), func(s *Values) *time.Duration { return &s.Ping }),
	{
		processes: Serving, Name: "lane_idle", Usage: "how long a server keeps the consumer of an unused priority, key or selector", dev: "24h", prod: "24h",
		read: func(s *Values, text string) error {
			if readPeriod(&s.LaneIdle, text) != nil || s.LaneIdle < scheduler.MinIdle {
				return fmt.Errorf("want a duration of at least %v with a unit, such as 24h", scheduler.MinIdle)
			}
			return nil
		},
		Text: func(s *Values) string { return s.LaneIdle.String() },
	},
	{
		processes: Serving, Name: "max_selectors", Usage: "how many different label selectors, and queues that no worker has served, tasks may use at the same time; others are refused, and those of a caller beyond a quarter", dev: "1000", prod: "1000",
		read: func(s *Values, text string) (err error) {
			if s.MaxSelectors, err = strconv.Atoi(text); err != nil || s.MaxSelectors < 1 || s.MaxSelectors > 100_000 {
				return errors.New("want a number from 1 to 100000")
			}
			return nil
		},
		Text: func(s *Values) string { return strconv.Itoa(s.MaxSelectors) },
	},
	size("task_output", "how many bytes of an attempt's output are kept, the first and the last, or off for all", "64MiB", []string{noSize}, func(s *Values) *int64 { return &s.TaskOutput }).of(Working),
	size("task_records", "how many bytes of records an attempt may produce before it fails, or off for any number", "1GiB", []string{noSize}, func(s *Values) *int64 { return &s.TaskRecords }).of(Working),
	size("store", "how many bytes all streams may hold together, or auto for the size of the disk or NATS server", autoSize, []string{autoSize}, func(s *Values) *int64 { return &s.Store }).of(Serving),
	size("store_output", "how many bytes of output of all tasks are kept, then the oldest goes; auto is a quarter of store", autoSize, []string{autoSize, noSize}, func(s *Values) *int64 { return &s.Sizes.Output }).of(Serving),
	size("store_records", "how many bytes of records of all tasks are kept, then new ones are refused; auto is a fifth of store", autoSize, []string{autoSize, noSize}, func(s *Values) *int64 { return &s.Sizes.Records }).of(Serving),
	size("store_files", "how many bytes of bundles and artifacts are kept, then new ones are refused; auto is three twentieths of store", autoSize, []string{autoSize, noSize}, func(s *Values) *int64 { return &s.Sizes.Files }).of(Serving),
	size("store_state", "how many bytes of checkpoints and standings are kept, then new ones are refused; auto is a twentieth of store", autoSize, []string{autoSize, noSize}, func(s *Values) *int64 { return &s.Sizes.State }).of(Serving),
	size("memory", "memory in bytes that a server or worker tries to stay within, or auto for four fifths of the machine's", bytesText(defaultMemory), []string{autoSize}, func(s *Values) *int64 { return &s.Memory }),
	onOff("new_privileges", "whether tasks may start programs that give them more rights, such as sudo: on or off", func(s *Values) *bool { return &s.NewPrivileges }).of(Working),
	{
		processes: Working, Name: "capabilities", Usage: "which capabilities tasks of root keep: none, all, or names such as chown,dac_read_search", dev: "none", prod: "none",
		read: func(s *Values, text string) error { return s.Confine.ParseCapabilities(text) },
		Text: func(s *Values) string { return s.Confine.CapabilitiesText() },
	},
	{
		processes: Working, Name: "runtimes", Usage: "which programs run images, the preferred one first, if they are there: names separated by commas, or none", dev: strings.Join(job.Runtimes, ","), prod: strings.Join(job.Runtimes, ","),
		read: func(s *Values, text string) error {
			s.Runtimes = nil
			for name := range strings.SplitSeq(text, ",") {
				if text == noWord {
					break
				}
				if !slices.Contains(job.Runtimes, name) || slices.Contains(s.Runtimes, name) {
					return fmt.Errorf("want none, or some of %s, once each", strings.Join(job.Runtimes, ", "))
				}
				s.Runtimes = append(s.Runtimes, name)
			}
			return nil
		},
		Text: func(s *Values) string { return cmp.Or(strings.Join(s.Runtimes, ","), noWord) },
	},
	onOff("tasks_look", "whether tasks may look into other processes of their user, as debuggers do: on or off", func(s *Values) *bool { return &s.Confine.Open }).of(Working),
	orOff("log_keep_done", "how long a server keeps the output of a finished task whose job does not say, or off for as long as the stream, 30 days", Off, func(s *Values) *time.Duration { return &s.LogKeep.Done }).of(Serving),
	orOff("log_keep_failed", "the same of a task that ended otherwise", Off, func(s *Values) *time.Duration { return &s.LogKeep.Failed }).of(Serving),
	orOff("data_keep_done", "the same of the records that it has produced; off is for ever", Off, func(s *Values) *time.Duration { return &s.DataKeep.Done }).of(Serving),
	orOff("data_keep_failed", "the same of the records of a task that ended otherwise", Off, func(s *Values) *time.Duration { return &s.DataKeep.Failed }).of(Serving),
	orOff("keep_age", "how long a task whose job does not say is kept after its end, or off for ever; then the log forgets it", "720h", func(s *Values) *time.Duration { return &s.KeepAge }).of(Serving),
	{
		processes: Serving, Name: "keep_queues", Usage: "the same for tasks of some queues, such as bulk=24h,mail=90d, or none", dev: noWord, prod: noWord,
		read: readKeepQueues, Text: func(s *Values) string {
			return listText(slices.Sorted(maps.Keys(s.KeepQueues)), func(queue string) string { return queue + "=" + s.KeepQueues[queue].String() })
		},
	},
	{
		processes: Serving, Name: "keep_tasks", Usage: "how many ended tasks are kept, then the log forgets the oldest, however young; or off for any number", dev: "1000000", prod: "1000000",
		read: func(s *Values, text string) (err error) {
			if s.KeepTasks = 0; text == Off {
				return nil
			}
			if s.KeepTasks, err = strconv.Atoi(text); err != nil || s.KeepTasks < 1 {
				return errors.New("want a number of at least 1, or off")
			}
			return nil
		},
		Text: func(s *Values) string {
			if s.KeepTasks == 0 {
				return Off
			}
			return strconv.Itoa(s.KeepTasks)
		},
	},
	{
		processes: Serving, Name: "archive", Usage: "where to keep what the log forgets: a folder, nats or nats:BUCKET for an object store of the NATS server, or off", dev: Off, prod: Off,
		read: func(s *Values, text string) (err error) { s.Archive, err = ParseArchive(text); return err },
		Text: func(s *Values) string { return cmp.Or(s.Archive, Off) },
	},
	word("notify", "file that says whom servers tell of failures and of what needs a person", noWord, func(s *Values) *string { return &s.Notify }).of(Serving),
}

// readKeepQueues parses for how long tasks of some queues are kept.
func readKeepQueues(s *Values, text string) error {
	s.KeepQueues = map[string]time.Duration{}
	for _, one := range wordsOf(text) {
		queue, age, _ := strings.Cut(one, "=")
		d, err := value.ParseDuration(age)
		if err == nil {
			err = value.ValidName("queue", queue)
		}
		if err != nil || d <= 0 {
			return fmt.Errorf("%q says of no queue how long its tasks are kept: want such as bulk=24h, with commas, or %s", one, noWord)
		}
		s.KeepQueues[queue] = d
	}
	return nil
}

// noWord is the value of an empty setting.
const noWord = "none"

// word makes a setting that is a word, or none.
func word(name, usage, value string, field func(*Values) *string) Setting {
	return Setting{
		Name: name, Usage: usage, dev: value, prod: value,
		read: func(s *Values, text string) error {
			if *field(s) = text; text == noWord {
				*field(s) = ""
			}
			return nil
		},
		Text: func(s *Values) string { return cmp.Or(*field(s), noWord) },
	}
}

// words makes a setting that is several words, or none.
func words(name, usage string, field func(*Values) *[]string) Setting {
	return Setting{
		Name: name, Usage: usage, dev: noWord, prod: noWord,
		read: func(s *Values, text string) error {
			*field(s) = wordsOf(text)
			return nil
		},
		Text: func(s *Values) string { return listText(*field(s), strings.Clone) },
	}
}

func wordsOf(text string) (list []string) {
	if text == noWord {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(one))
	}
	return list
}

func listText[T any](list []T, text func(T) string) string {
	var parts []string
	for _, one := range list {
		parts = append(parts, text(one))
	}
	return cmp.Or(strings.Join(parts, ","), noWord)
}

// readProxies parses addresses, and ranges of them.
func readProxies(s *Values, text string) error {
	s.HTTP.ProxyFrom = nil
	for _, one := range wordsOf(text) {
		is, err := netip.ParsePrefix(one)
		if at, bad := netip.ParseAddr(one); bad == nil {
			is, err = netip.PrefixFrom(at, at.BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("%q is no address: want such as 10.0.0.5 or 10.1.0.0/16, with commas, or %s", one, noWord)
		}
		s.HTTP.ProxyFrom = append(s.HTTP.ProxyFrom, is)
	}
	return nil
}

// onOff makes a setting that is on or, by default, off.
func onOff(name, usage string, field func(*Values) *bool) Setting {
	return Setting{
		Name: name, Usage: usage, dev: Off, prod: Off,
		read: func(s *Values, text string) error {
			if *field(s) = text == "on"; text != "on" && text != Off {
				return errors.New("want on or off")
			}
			return nil
		},
		Text: func(s *Values) string {
			if *field(s) {
				return "on"
			}
			return Off
		},
	}
}

// orOff is a setting that is a duration or off, which is 0.
func orOff(name, usage, is string, field func(*Values) *time.Duration) Setting {
	return Setting{
		Name: name, Usage: usage, dev: is, prod: is,
		read: func(s *Values, text string) error {
			if text == Off {
				*field(s) = 0
				return nil
			}
			if readPeriod(field(s), text) != nil {
				return errors.New("want a duration of at least 100ms with a unit, such as 72h, or off")
			}
			return nil
		},
		Text: func(s *Values) string {
			if *field(s) == 0 {
				return Off
			}
			return field(s).String()
		},
	}
}

// ownSpool is the value of the setting spool for a folder of the user's.
const ownSpool = "auto"

// readSpool parses a folder, relative to where the process was started.
func readSpool(s *Values, text string) (err error) {
	if s.Spool = ""; text != ownSpool {
		s.Spool, err = filepath.Abs(text)
	}
	return err
}

// archiveStore begins the name of an archive in an object store, and DefaultBucket is the one that
// "nats" stands for.
const (
	archiveStore  = "nats"
	DefaultBucket = "MR_ARCHIVE"
)

var bucketName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ParseArchive parses where an archive is: the absolute path of a folder, nats:BUCKET, or "" for
// nowhere.
func ParseArchive(text string) (string, error) {
	kind, bucket, named := strings.Cut(text, ":")
	switch {
	case text == Off:
		return "", nil
	case text == archiveStore:
		return archiveStore + ":" + DefaultBucket, nil
	case named && kind == archiveStore && bucketName.MatchString(bucket):
		return text, nil
	case named && kind == archiveStore:
		return "", fmt.Errorf("%q is no name of an object store: want letters, digits, - and _", bucket)
	}
	return filepath.Abs(text)
}

// ArchiveBucket returns the object store of a parsed archive; false if it is a folder.
func ArchiveBucket(archive string) (string, bool) {
	return strings.CutPrefix(archive, archiveStore+":")
}

// readBytes parses a number of bytes.
func readBytes(text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > 1<<50 {
		return 0, errors.New("want a number of bytes from 1 to 1 PiB, such as 64MiB or 2GB")
	}
	return int64(n), nil
}

// bytesText formats a number of bytes readably, without losing any.
func bytesText(size int64) string {
	n := uint64(size) // never below zero
	text := strings.ReplaceAll(humanize.IBytes(n), " ", "")
	if read, err := humanize.ParseBytes(text); err != nil || read != n {
		return strconv.FormatUint(n, 10)
	}
	return text
}

// Values of a size other than numbers.
const (
	autoSize = "auto" // what there is
	noSize   = "off"  // no bound
)

// size makes a setting that is a number of bytes, or one of some words.
func size(name, usage, value string, words []string, field func(*Values) *int64) Setting {
	return Setting{
		Name: name, Usage: usage, dev: value, prod: value,
		read: func(s *Values, text string) (err error) {
			switch {
			case !slices.Contains(words, text):
				if *field(s), err = readBytes(text); err != nil && words != nil {
					return fmt.Errorf("%w, or %s", err, strings.Join(words, ", or "))
				}
			case text == autoSize:
				*field(s) = 0
			case text == noSize:
				*field(s) = streams.NoBound
			}
			return err
		},
		Text: func(s *Values) string {
			switch n := *field(s); n {
			case 0:
				return autoSize
			case streams.NoBound:
				return noSize
			default:
				return bytesText(n)
			}
		},
	}
}

// Off is the value of what is not done: an address at which nothing is served, a time after which nothing
// is dropped.
const Off = "off"

// DevHTTP is the default address of dev's HTTP service; dev takes another port if that one is
// taken.
const DevHTTP = "127.0.0.1:4280"

// readAddress parses an address. A port alone means loopback.
func readAddress(field func(*Values) *string, example string) func(*Values, string) error {
	return func(s *Values, text string) error {
		address := field(s)
		if *address = ""; text == Off {
			return nil
		}
		if !strings.Contains(text, ":") {
			text = "127.0.0.1:" + text
		}
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return fmt.Errorf("want an address such as %s, with port 0 for a free one, or %s", example, Off)
		}
		*address = text
		return nil
	}
}

// score makes a setting that is a score of a node. If never is set, 0 switches the rule off.
func score(name, usage, value string, never bool, field func(*Values) *float64) Setting {
	return Setting{
		Name: name, Usage: usage, dev: value, prod: value,
		read: func(s *Values, text string) error {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || v < 0 || v > 1000 {
				return errors.New("want a number from 0 to 1000")
			}
			if v == 0 {
				if !never { // it is never down to nothing
					return errors.New("want a number above 0, up to 1000")
				}
				v = -1
			}
			*field(s) = v
			return nil
		},
		Text: func(s *Values) string { return strconv.FormatFloat(max(*field(s), 0), 'f', -1, 64) },
	}
}

// period makes a setting that is a duration.
func period(name, usage, dev, prod string, field func(*Values) *time.Duration) Setting {
	return Setting{
		Name: name, Usage: usage, dev: dev, prod: prod,
		read: func(s *Values, text string) error { return readPeriod(field(s), text) },
		Text: func(s *Values) string { return field(s).String() },
	}
}

func readPeriod(d *time.Duration, text string) error {
	v, err := value.ParseDuration(text)
	if err != nil || v < 100*time.Millisecond {
		return errors.New("want a duration of at least 100ms with a unit, such as 30s or 5m")
	}
	*d = v
	return nil
}

// ReadSync parses how often the log is flushed to the disk.
func ReadSync(s *Values, text string) error {
	if text == "always" {
		s.SyncAlways, s.SyncInterval = true, 0
		return nil
	}
	s.SyncAlways = false
	if err := readPeriod(&s.SyncInterval, text); err != nil {
		return fmt.Errorf("%w, or always", err)
	}
	return nil
}

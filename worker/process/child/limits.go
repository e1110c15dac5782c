package child

import (
	"fmt"
	"strings"

	"millrace/task/job"
	"millrace/task/value"
)

// limits are the bounds of one run, and how each is enforced.
type limits struct {
	want   job.Resources
	group  *cgroup  // nil without a control group
	words  []string // bounds in force
	missed []string // bounds not in force
}

// none tells whether the run asks for no bound that this package enforces.
func (l *limits) none() bool {
	r := l.want
	return r.Memory == 0 && r.CPU == 0 && r.PIDs == 0 && r.FileSize == 0
}

// text describes in words which bounds are in force.
func (l *limits) text() string {
	all := l.words
	if len(l.missed) > 0 {
		all = append(all[:len(all):len(all)], "not in force: "+strings.Join(l.missed, ", "))
	}
	return strings.Join(all, ", ")
}

// plan decides how each bound is enforced. groups tells whether the machine has control groups for
// us; reason says why not.
func plan(want job.Resources, groups bool, reason string) limits {
	l := limits{want: want}
	say := func(format string, args ...any) { l.words = append(l.words, fmt.Sprintf(format, args...)) }
	how := "watched"
	if groups {
		how = "cgroup"
	}
	if want.Memory > 0 {
		say("memory %v (%s)", want.Memory, how)
	}
	if want.CPU > 0 {
		if groups {
			say("cpu %g (cgroup)", want.CPU)
		} else {
			l.missed = append(l.missed, fmt.Sprintf("cpu %g (%s)", want.CPU, reason))
		}
	}
	if want.PIDs > 0 {
		say("pids %d (%s)", want.PIDs, how)
	}
	if want.FileSize > 0 {
		say("file_size %v (rlimit)", want.FileSize)
	}
	return l
}

// judge decides whether a bound ended the run. over names the bound that the watcher saw exceeded,
// peak is the most memory seen.
func (l *limits) judge(r Result, over string, peak int64) Result {
	r.Usage.Limits = l.text()
	r.Usage.MaxMemory = max(r.Usage.MaxMemory, peak)
	fail := func(class, format string, args ...any) {
		r.Class, r.Message, r.Stopped = class, fmt.Sprintf(format, args...), false
	}
	memory := l.want.Memory
	switch {
	case over == overPIDs:
		fail(value.Task, "it had more than %d processes and threads: raise resources.pids, or start fewer", l.want.PIDs)
	case over == overMemory,
		memory > 0 && r.Class != "" && !r.Stopped && l.group != nil && l.group.outOfMemory(),
		// The kernel may have refused it memory, or it grew faster than the watcher looked.
		memory > 0 && r.Class != "" && !r.Stopped && r.Usage.MaxMemory > int64(memory):
		fail(value.Memory, "it used more than %v of memory: raise resources.memory, or use less", memory)
	case l.want.FileSize > 0 && r.Signal == "SIGXFSZ":
		fail(value.Task, "it wrote a file of more than %v: raise resources.file_size, or write less", l.want.FileSize)
	}
	return r
}

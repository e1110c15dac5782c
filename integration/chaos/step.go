package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/task/value"
)

// Fault is what happens to a target.
type Fault string

// The faults. Those of processes end with the process running again, those of links with a good
// link.
const (
	// Kill ends a process with SIGKILL and starts it again.
	Kill Fault = "kill"
	// Term asks a process to end with SIGTERM, waits for its end and starts it again.
	Term Fault = "term"
	// Pause stops a process with SIGSTOP and lets it go on with SIGCONT.
	Pause Fault = "pause"

	// Spoil changes files in the cache of the workers, again and again.
	Spoil Fault = "spoil"

	// Clock shifts how a process perceives its machine's clock, and back: two jumps.
	Clock Fault = "clock"

	// Fill fills the disk of the NATS server, and makes room again.
	Fill Fault = "fill"

	// Older has a process run the older program: it changes to that and back, each time as [Term]. One
	// that is down changes when it is started again. At 0s it begins with the older program.
	Older Fault = "older"

	Cut       Fault = "cut"       // every connection is reset, and each new one
	Blackhole Fault = "blackhole" // nothing passes, and neither end notices
	HalfOpen  Fault = "half-open" // the server's end is gone, and the client does not notice
	Delay     Fault = "delay"     // everything is late, each way
	Throttle  Fault = "throttle"  // few bytes pass per second
	Drop      Fault = "drop"      // some chunk of each connection is lost, and the connection reset
	Stall     Fault = "stall"     // every n-th chunk is held up, and what follows it
	Lose      Fault = "lose"      // every n-th chunk is left out, and neither end notices
)

// Faults lists all of them.
var Faults = []Fault{Kill, Term, Pause, Spoil, Clock, Fill, Older, Cut, Blackhole, HalfOpen, Delay, Throttle, Drop, Stall, Lose}

// ofProcess tells whether the fault affects a process, or its files, rather than its link.
func (f Fault) ofProcess() bool {
	return f == Kill || f == Term || f == Pause || f == Spoil || f == Clock || f == Fill || f == Older
}

// counts tells whether the fault affects every n-th chunk.
func (f Fault) counts() bool { return f == Drop || f == Stall || f == Lose }

// aspect is the part of a target that the fault affects. Its clock may be wrong, and its program
// another, whatever else happens to it; a process that is down has no link.
func (f Fault) aspect() string {
	switch f {
	case Clock:
		return "clock"
	case Older:
		return "program"
	}
	return "process"
}

// silences tells whether the target is silent during the fault.
func (f Fault) silences() bool {
	return f == Kill || f == Pause || f == Cut || f == Blackhole || f == HalfOpen
}

// Target is the name of a fault's target: one process ("worker-1", "scheduler-2", "server"), all of
// a kind ("workers", "schedulers") or "all".
type Target string

// Targets that are not one worker or scheduler.
const (
	Server     Target = "server"
	Workers    Target = "workers"
	Schedulers Target = "schedulers"
	All        Target = "all"
	// Pusher pushes folders, and Cache is where workers keep them; they exist if a scenario has one
	// of them.
	Pusher Target = "pusher"
	Cache  Target = "cache"
	// Callers submit and cancel tasks and make schedules; only their clock can be wrong. They make
	// schedules if a scenario has them as a target.
	Callers Target = "callers"
)

// Worker names the i-th worker, from 1, and Scheduler the i-th scheduler.
func Worker(i int) Target { return Target("worker-" + strconv.Itoa(i)) }

// Scheduler names the i-th scheduler, from 1.
func Scheduler(i int) Target { return Target("scheduler-" + strconv.Itoa(i)) }

func (t Target) isWorker() bool { return strings.HasPrefix(string(t), "worker-") }

// Step is one fault: when, which, its target, and how long.
type Step struct {
	// At is when it begins, since the load began.
	At     value.Duration `json:"at"`
	Fault  Fault          `json:"fault"`
	Target Target         `json:"target"`
	// For is how long it lasts.
	For value.Duration `json:"for"`
	// Delay is by how much a slow link is late, each way, or how long a stalled one holds a chunk
	// up; only if Fault is [Delay] or [Stall]. Default 200ms.
	Delay value.Duration `json:"delay,omitempty"`
	// Rate is how many bytes a throttled link passes per second; only if Fault is [Throttle].
	// Default 16384.
	Rate int `json:"rate,omitempty"`
	// Every says which chunk of a connection is lost or held up, at least 2; only if Fault is
	// [Drop] (default 20), [Stall] or [Lose] (default 2: every second one).
	Every int `json:"every,omitempty"`
	// Shift is by how much a clock jumps, ahead or back; only if Fault is [Clock]. Default 5m.
	Shift Shift `json:"shift,omitempty"`
}

// End is when the fault ends.
func (s Step) End() time.Duration { return s.At.Std() + s.For.Std() }

// String describes the step in a line.
func (s Step) String() string {
	text := fmt.Sprintf("%7.2fs  %-9s %-12s for %v", s.At.Std().Seconds(), s.Fault, s.Target, s.For)
	switch s.Fault {
	case Delay:
		text += fmt.Sprintf(", %v each way", s.Delay)
	case Clock:
		text += fmt.Sprintf(", by %v", s.Shift)
	case Throttle:
		text += fmt.Sprintf(", %d B/s", s.Rate)
	case Drop:
		text += fmt.Sprintf(", chunk %d of each connection", s.Every)
	case Stall:
		text += fmt.Sprintf(", one of %d chunks by %v", s.Every, s.Delay)
	case Lose:
		text += fmt.Sprintf(", one of %d chunks", s.Every)
	}
	return text
}

// mode is the mode of the target's proxy during the step.
func (s Step) mode() Mode {
	kind := map[Fault]Kind{
		Cut: LinkCut, Blackhole: LinkBlackhole, HalfOpen: LinkHalfOpen,
		Delay: LinkDelay, Throttle: LinkThrottle, Drop: LinkDrop, Stall: LinkStall, Lose: LinkLose,
	}[s.Fault]
	return Mode{Kind: kind, Delay: s.Delay.Std(), Rate: s.Rate, Every: s.Every}
}

// withDefaults sets the defaults of the fault's fields.
func (s Step) withDefaults() Step {
	switch s.Fault {
	case Delay:
		s.Delay = cmp.Or(s.Delay, value.Duration(200*time.Millisecond))
	case Clock:
		s.Shift = cmp.Or(s.Shift, Shift(5*time.Minute))
	case Throttle:
		s.Rate = cmp.Or(s.Rate, 16<<10)
	case Drop:
		s.Every = cmp.Or(s.Every, 20)
	case Stall:
		s.Every, s.Delay = cmp.Or(s.Every, 2), cmp.Or(s.Delay, value.Duration(200*time.Millisecond))
	case Lose:
		s.Every = cmp.Or(s.Every, 2)
	}
	return s
}

// size is the number of workers and schedulers.
type size struct{ workers, schedulers int }

// several tells whether a target stands for several.
func (t Target) several() bool { return t == Workers || t == Schedulers || t == All }

// members returns the single targets of a target, the server first; none if there is no such
// target.
func (n size) members(t Target) []Target {
	all := func(name func(int) Target, count int) []Target {
		var list []Target
		for i := range count {
			list = append(list, name(i+1))
		}
		return list
	}
	workers, schedulers := all(Worker, n.workers), all(Scheduler, n.schedulers)
	switch t {
	case Server:
		return []Target{Server}
	case Workers:
		return workers
	case Schedulers:
		return schedulers
	case Pusher, Cache, Callers:
		return []Target{t}
	case All:
		return slices.Concat([]Target{Server}, schedulers, workers)
	}
	if slices.Contains(workers, t) || slices.Contains(schedulers, t) {
		return []Target{t}
	}
	return nil
}

// names lists the targets, for messages.
func (n size) names() string {
	text := "server, pusher, cache, callers, all"
	if n.schedulers > 0 {
		text += fmt.Sprintf(", schedulers, %s to %s", Scheduler(1), Scheduler(n.schedulers))
	}
	return text + fmt.Sprintf(", workers, %s to %s", Worker(1), Worker(n.workers))
}

// validate refuses an impossible step.
func (s Step) validate(n size) error {
	members := n.members(s.Target)
	switch {
	case !slices.Contains(Faults, s.Fault):
		return fmt.Errorf("there is no fault %q; there are %s", s.Fault, value.List(Faults))
	case len(members) == 0:
		return fmt.Errorf("there is no target %q; there are %s", s.Target, n.names())
	case !s.Fault.ofProcess() && slices.Contains(members, Server):
		return fmt.Errorf("%s is a fault of a link, and %s has none of its own: choose workers or schedulers", s.Fault, Server)
	case (s.Fault == Spoil) != (s.Target == Cache):
		return fmt.Errorf("%s is a fault of %s, which has no other", Spoil, Cache)
	case s.Fault == Fill && s.Target != Server:
		return fmt.Errorf("%s is a fault of %s alone: the others keep nothing that counts", Fill, Server)
	case s.Fault == Older && s.Target == Pusher:
		return fmt.Errorf("%s is a fault of servers and workers: %s is no part of the product", Older, Pusher)
	case s.Target == Callers && s.Fault != Clock:
		return fmt.Errorf("%s have nothing of their own but a clock: choose the fault %s", Callers, Clock)
	case s.At < 0:
		return fmt.Errorf("at is %v, want 0s or later", s.At)
	case s.For <= 0:
		return fmt.Errorf("for is %v, want more than 0s", s.For)
	case s.Delay != 0 && s.Fault != Delay && s.Fault != Stall, s.Rate != 0 && s.Fault != Throttle, s.Every != 0 && !s.Fault.counts(), s.Shift != 0 && s.Fault != Clock:
		return fmt.Errorf("delay belongs to the faults %s and %s, rate to %s, every to %s, %s and %s, and shift to %s", Delay, Stall, Throttle, Drop, Stall, Lose, Clock)
	case s.Fault == Clock && slices.Contains(members, Server):
		return fmt.Errorf("%s has no clock but the machine's: choose workers, schedulers or %s", Server, Callers)
	case s.Delay < 0:
		return fmt.Errorf("delay is %v, want more than 0s", s.Delay)
	case s.Rate < 0:
		return fmt.Errorf("rate is %d, want more than 0", s.Rate)
	case s.Every != 0 && s.Every < 2:
		return fmt.Errorf("every is %d, want at least 2", s.Every)
	}
	return nil
}

// clash finds an earlier step that has not ended when s begins and affects the same aspect of the
// same target.
func clash(s Step, before []Step, n size) (Step, bool) {
	var mine []Target
	for _, b := range before {
		if s.At.Std() >= b.End() || b.At.Std() >= s.End() || s.Fault.aspect() != b.Fault.aspect() {
			continue
		}
		if s.Target != b.Target && !s.Target.several() && !b.Target.several() {
			continue
		}
		if mine == nil {
			mine = n.members(s.Target)
		}
		if slices.ContainsFunc(n.members(b.Target), func(t Target) bool { return slices.Contains(mine, t) }) {
			return b, true
		}
	}
	return Step{}, false
}

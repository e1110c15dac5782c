package chaos

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"millrace/task/value"
)

// Scenario is a kind of plan.
type Scenario struct {
	Name string
	// What describes the scenario in one line.
	What string
	make func(*planner)
}

// Scenarios lists the scenarios that [Plan] knows.
var Scenarios = []Scenario{
	{"kill", "kill -9 of workers, some for longer than their lease, some only for a moment", (*planner).kill},
	{"pause", "SIGSTOP of workers for longer than their lease, then SIGCONT", (*planner).pause},
	{"partition", "links of workers that are cut, swallow everything or are open at one end only", (*planner).partition},
	{"slow-link", "links of workers that are late, narrow or lose chunks", (*planner).slowLink},
	{"flap", "the link of one worker comes and goes", (*planner).flap},
	{"double-drop", "the link of a worker is away for 10 s, comes back, and is away again 18 s later for 20 s", (*planner).doubleDrop},
	{"server-restart", "kill -9 of the NATS server and a start on the same data, also while tasks are taken over", (*planner).serverRestart},
	{"scheduler-kill", "kill -9 of schedulers, one or all, also while a worker dies", (*planner).schedulerKill},
	{"roll", "rolling restart with SIGTERM: one worker after the other, then the schedulers", (*planner).roll},
	{"blackout", "kill -9 of everything at once", (*planner).blackout},
	{"standstill", "SIGSTOP of everything at once, then SIGCONT, as when a virtual machine is moved", (*planner).standstill},
	{"clock-jump", "the clock that workers, schedulers and submitters see jumps by minutes, and back", (*planner).clockJump},
	{"files", "kill -9 of the process that pushes folders, of the server and of workers that fetch them, spoilt caches", (*planner).files},
	{"full-disk", "the disk of the NATS server is full, and then has room again, also while a worker dies", (*planner).fullDisk},
	{"upgrade", "an older program (--older) gives way to this one part by part: servers first, back, workers first", (*planner).upgrade},
	{"mix", "all of these but standstill, files, full-disk and upgrade, by chance", (*planner).mix},
}

// Frame is everything that a plan depends on.
type Frame struct {
	Seed     uint64
	Scenario string // one of [Scenarios], or "all" for "mix"
	// Duration is when the last fault has ended. At least 5s.
	Duration time.Duration
	// Workers and Schedulers are their numbers; at least 1 worker.
	Workers, Schedulers int
	// Lease is how long a silent worker keeps its tasks and Silence how long a silent node counts
	// as online; faults that must be noticed last longer.
	Lease, Silence time.Duration
}

// shortest is the shortest duration that a plan fits in.
const shortest = 5 * time.Second

// Plan makes the faults of a scenario, in the order of their beginning. It is a pure function: the
// same frame gives the same steps. No target has two faults at one time, and all have ended at
// f.Duration, except that a process may take longer to end after SIGTERM. The error says what is
// wrong with the frame.
func Plan(f Frame) ([]Step, error) {
	name := f.Scenario
	if name == "all" {
		name = "mix"
	}
	i := slices.IndexFunc(Scenarios, func(s Scenario) bool { return s.Name == name })
	switch {
	case i < 0:
		return nil, fmt.Errorf("there is no scenario %q; there are %s, all", f.Scenario, strings.Join(ScenarioNames(), ", "))
	case f.Duration < shortest:
		return nil, fmt.Errorf("the duration is %v, want at least %v", f.Duration, shortest)
	case f.Workers < 1:
		return nil, fmt.Errorf("the number of workers is %d, want at least 1", f.Workers)
	case f.Lease <= 0 || f.Silence <= 0 || f.Schedulers < 0:
		return nil, fmt.Errorf("lease %v, silence %v and %d schedulers make no sense", f.Lease, f.Silence, f.Schedulers)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	p := &planner{Frame: f, size: size{f.Workers, f.Schedulers}, chance: rand.New(rand.NewPCG(f.Seed, h.Sum64())), now: quiet}
	Scenarios[i].make(p)
	slices.SortStableFunc(p.steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return p.steps, nil
}

// ScenarioNames returns the names of [Scenarios].
func ScenarioNames() []string {
	names := make([]string, len(Scenarios))
	for i, s := range Scenarios {
		names[i] = s.Name
	}
	return names
}

// quiet is how long nothing is broken at first, so that work is in progress.
const quiet = 1500 * time.Millisecond

// planner makes one plan from left to right.
type planner struct {
	Frame
	size   size
	chance *rand.Rand
	now    time.Duration
	steps  []Step
}

// between draws a duration, in whole hundredths of a second.
func (p *planner) between(least, most time.Duration) time.Duration {
	const unit = 10 * time.Millisecond
	if most <= least {
		return least.Round(unit)
	}
	return (least + time.Duration(p.chance.Int64N(int64(most-least)))).Round(unit)
}

func (p *planner) wait(least, most time.Duration) { p.now += p.between(least, most) }

// one returns true once in n times.
func (p *planner) one(n int) bool { return p.chance.IntN(n) == 0 }

// longer is a time after which a silent worker has lost its leases and its node was found silent;
// brief is one after which neither is the case.
func (p *planner) longer() time.Duration {
	gone := max(p.Lease, p.Silence+2*time.Second)
	return p.between(gone+500*time.Millisecond, gone*3/2)
}

func (p *planner) brief() time.Duration {
	return p.between(200*time.Millisecond, max(min(p.Lease, p.Silence)/2, 300*time.Millisecond))
}

// fits tells whether a fault of this length ends in time.
func (p *planner) fits(length time.Duration) bool { return p.now+length <= p.Duration }

// add adds a fault that begins some time after now, if its target has no other one; it ends with
// the plan at the latest.
func (p *planner) add(after time.Duration, fault Fault, target Target, length time.Duration) bool {
	return p.addStep(after, Step{Fault: fault, Target: target, For: value.Duration(length)})
}

func (p *planner) addStep(after time.Duration, s Step) bool {
	s.At = value.Duration(p.now + after)
	rest := (p.Duration - s.At.Std()).Truncate(10 * time.Millisecond)
	if s.For = min(s.For, value.Duration(rest)); s.For.Std() < 50*time.Millisecond {
		return false
	}
	if _, clashes := clash(s, p.steps, p.size); clashes {
		return false
	}
	p.steps = append(p.steps, s.withDefaults())
	return true
}

// worker chooses a worker whose fault leaves another one undisturbed, unless there is only one;
// false if there is none now.
func (p *planner) worker(length time.Duration) (Target, bool) {
	var free []Target
	for _, w := range p.size.members(Workers) {
		s := Step{At: value.Duration(p.now), Fault: Kill, Target: w, For: value.Duration(length)}
		if _, clashes := clash(s, p.steps, p.size); !clashes {
			free = append(free, w)
		}
	}
	if len(free) == 0 || len(free) == 1 && p.Workers > 1 {
		return "", false
	}
	return free[p.chance.IntN(len(free))], true
}

// workers adds faults of workers until the end.
func (p *planner) workers(fault func(w Target) Step, least, most time.Duration) {
	for p.fits(300 * time.Millisecond) {
		s := fault("")
		if w, ok := p.worker(s.For.Std()); ok {
			s.Target = w
			p.addStep(0, s)
		}
		p.wait(least, most)
	}
}

func (p *planner) kill() { p.workers(p.killed, time.Second, 4*time.Second) }

func (p *planner) killed(w Target) Step {
	length := p.longer()
	if p.one(2) {
		length = p.brief()
	}
	return Step{Fault: Kill, Target: w, For: value.Duration(length)}
}

func (p *planner) pause() { p.workers(p.paused, 2*time.Second, 5*time.Second) }

func (p *planner) paused(w Target) Step {
	return Step{Fault: Pause, Target: w, For: value.Duration(p.longer())}
}

func (p *planner) partition() { p.workers(p.parted, time.Second, 4*time.Second) }

func (p *planner) parted(w Target) Step {
	fault := []Fault{Cut, Blackhole, HalfOpen}[p.chance.IntN(3)]
	length := p.longer()
	if p.one(3) {
		length = p.brief()
	}
	return Step{Fault: fault, Target: w, For: value.Duration(length)}
}

func (p *planner) slowLink() { p.workers(p.slowed, time.Second, 3*time.Second) }

func (p *planner) slowed(w Target) Step {
	s := Step{Target: w, For: value.Duration(p.between(p.Lease/2, 2*p.Lease))}
	switch p.chance.IntN(3) {
	case 0:
		s.Fault, s.Delay = Delay, value.Duration(p.between(20*time.Millisecond, min(p.Lease/8, 500*time.Millisecond)))
	case 1:
		s.Fault, s.Rate = Throttle, 4<<10<<p.chance.IntN(4)
	default:
		s.Fault, s.Every = Drop, []int{2, 5, 20, 50}[p.chance.IntN(4)]
	}
	return s
}

func (p *planner) flap() {
	w := Worker(1 + p.chance.IntN(p.Workers))
	for p.fits(time.Second) {
		length := p.between(200*time.Millisecond, time.Second)
		p.add(0, Cut, w, length)
		p.now += length
		p.wait(300*time.Millisecond, 2*time.Second)
	}
}

// doubleDrop is the scenario that defeated a predecessor. It takes 48 s; with less time everything
// shrinks proportionally.
func (p *planner) doubleDrop() {
	w := Worker(1 + p.chance.IntN(p.Workers))
	scale := min(1, float64(p.Duration-p.now)/float64(48*time.Second))
	scaled := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * scale).Truncate(10 * time.Millisecond)
	}
	p.add(0, Cut, w, scaled(10*time.Second))
	p.now += scaled(28 * time.Second)
	p.add(0, Cut, w, scaled(20*time.Second))
}

func (p *planner) serverRestart() {
	for i := 0; p.fits(300 * time.Millisecond); i++ {
		p.serverKilled(i%2 == 1)
		p.wait(p.Lease+time.Second, p.Lease+4*time.Second)
	}
}

// serverKilled kills the server; with takeover, just when the tasks of a dead worker are to be
// taken over.
func (p *planner) serverKilled(takeover bool) {
	length := p.between(200*time.Millisecond, 2*time.Second)
	if p.one(4) {
		length = p.longer()
	}
	if takeover {
		dead := p.Lease + 2*time.Second
		if w, ok := p.worker(dead); ok && p.fits(dead) {
			p.add(0, Kill, w, dead)
			p.now += p.between(p.Lease-time.Second, p.Lease+time.Second)
		}
	}
	if p.add(0, Kill, Server, length) {
		p.now += length
	}
}

func (p *planner) schedulerKill() {
	for i := 0; p.fits(300 * time.Millisecond); i++ {
		p.schedulerKilled(i%2 == 1)
		p.wait(time.Second, 4*time.Second)
	}
}

// schedulerKilled kills one scheduler or all; with worker, just before a worker dies.
func (p *planner) schedulerKilled(worker bool) {
	if p.Schedulers == 0 {
		return
	}
	target := Scheduler(1 + p.chance.IntN(p.Schedulers))
	if p.one(2) {
		target = Schedulers
	}
	length := p.between(500*time.Millisecond, 5*time.Second)
	if !p.add(0, Kill, target, length) || !worker {
		return
	}
	dead := p.longer()
	if w, ok := p.worker(dead); ok {
		p.add(p.between(0, length), Kill, w, dead)
	}
}

func (p *planner) roll() {
	for p.fits(500 * time.Millisecond) {
		for _, t := range slices.Concat(p.size.members(Workers), p.size.members(Schedulers)) {
			p.add(0, Term, t, p.between(50*time.Millisecond, 500*time.Millisecond))
			p.wait(2*time.Second, 3*time.Second)
		}
	}
}

func (p *planner) blackout() {
	for p.fits(500 * time.Millisecond) {
		length := p.between(500*time.Millisecond, p.Lease*3/2)
		if p.add(0, Kill, All, length) {
			p.now += length
		}
		p.wait(p.Lease+time.Second, p.Lease+5*time.Second)
	}
}

func (p *planner) standstill() {
	for p.now = 2 * quiet; p.fits(500 * time.Millisecond); p.wait(quiet, 2*quiet) {
		length := p.between(p.Lease/3, p.Lease)
		if p.add(0, Pause, All, length) {
			p.now += length
		}
	}
}

func (p *planner) clockJump() {
	for p.fits(300 * time.Millisecond) {
		if p.clockJumps(); p.one(2) {
			s := p.clockShift()
			s.Target = Callers
			p.addStep(0, s)
		}
		p.wait(500*time.Millisecond, 2*time.Second)
	}
}

// clockJumps makes one clock jump, ahead or back, by up to ten minutes. Every other time the
// process is killed meanwhile, and so starts with a wrong clock.
func (p *planner) clockJumps() {
	s := p.clockShift()
	if p.Schedulers > 0 && p.one(3) {
		s.Target = Scheduler(1 + p.chance.IntN(p.Schedulers))
	} else if w, ok := p.worker(s.For.Std()); ok {
		s.Target = w
	} else {
		return
	}
	if p.addStep(0, s) && p.one(2) {
		p.add(p.between(0, s.For.Std()/2), Kill, s.Target, p.between(100*time.Millisecond, s.For.Std()/4))
	}
}

// clockShift is a jump of a clock, and back.
func (p *planner) clockShift() Step {
	s := Step{Fault: Clock, For: value.Duration(p.between(p.Lease/2, 2*p.Lease)), Shift: Shift(p.between(10*time.Second, 10*time.Minute))}
	if p.one(2) {
		s.Shift = -s.Shift
	}
	return s
}

// files breaks the delivery of folders to tasks.
func (p *planner) files() {
	acts := []func(){
		func() { p.add(0, Kill, Pusher, p.between(50*time.Millisecond, time.Second)) },
		func() { p.add(0, Spoil, Cache, p.between(200*time.Millisecond, 2*time.Second)) },
		func() { p.add(0, Kill, Server, p.between(200*time.Millisecond, time.Second)) },
		func() {
			if w, ok := p.worker(p.Lease); ok {
				p.addStep(0, p.killed(w))
			}
		},
		func() { // it is killed while it fetches
			s := Step{Fault: Throttle, Rate: 1 << 20, For: value.Duration(p.between(time.Second, 3*time.Second))}
			if w, ok := p.worker(s.For.Std() + time.Second); ok {
				s.Target = w
				p.addStep(0, s)
				p.add(s.For.Std(), Kill, w, p.between(50*time.Millisecond, time.Second))
			}
		},
	}
	for i := 0; p.fits(300 * time.Millisecond); i++ {
		acts[(i+p.chance.IntN(2))%len(acts)]()
		p.wait(300*time.Millisecond, 1500*time.Millisecond)
	}
}

// fullDisk fills the server's disk, for a moment or for longer than any lease.
func (p *planner) fullDisk() {
	for i := 0; p.fits(500 * time.Millisecond); i++ {
		length := p.between(300*time.Millisecond, p.Lease)
		if i%2 == 1 {
			length = p.longer()
		}
		if p.one(3) {
			if w, ok := p.worker(p.Lease); ok {
				p.addStep(p.between(0, length), p.killed(w))
			}
		}
		if p.add(0, Fill, Server, length) {
			p.now += length
		}
		p.wait(p.Lease+time.Second, p.Lease+4*time.Second)
	}
}

// upgrade begins with the older program everywhere, and changes one process after the other: to the
// newer program with the servers first, all the way back, and to the newer one with the workers first.
// Every other time the process is killed just before, so that what it has left, an attempt that goes
// on for instance, is found by the other program.
func (p *planner) upgrade() {
	servers := append(p.size.members(Server), p.size.members(Schedulers)...)
	workers := p.size.members(Workers)
	up := slices.Concat(servers, workers)
	back := slices.Clone(up)
	slices.Reverse(back)
	pause := (p.Duration - p.now) / time.Duration(3*len(up))
	since := map[Target]time.Duration{} // when it began to run the older program
	for i, order := range [][]Target{up, back, slices.Concat(workers, servers)} {
		for _, t := range order {
			if i == 1 {
				since[t] = p.now
			} else {
				p.add(since[t]-p.now, Older, t, p.now-since[t])
			}
			if p.one(2) {
				before := p.between(0, 300*time.Millisecond)
				p.add(-before, Kill, t, before+p.between(100*time.Millisecond, time.Second))
			} else if w, ok := p.worker(p.Lease * 2); ok && p.one(2) {
				p.addStep(p.between(0, pause/2), p.killed(w))
			}
			p.wait(pause/2, pause)
		}
	}
}

func (p *planner) mix() {
	of := func(step func(Target) Step) func() {
		return func() {
			s := step("")
			if w, ok := p.worker(s.For.Std()); ok {
				s.Target = w
				p.addStep(0, s)
			}
		}
	}
	acts := []func(){
		of(p.killed), of(p.killed), of(p.paused), of(p.parted), of(p.parted), of(p.slowed), of(p.slowed),
		func() { p.serverKilled(p.one(2)) },
		func() { p.schedulerKilled(p.one(2)) },
		func() {
			if w, ok := p.worker(time.Second); ok {
				p.add(0, Term, w, p.between(50*time.Millisecond, 500*time.Millisecond))
			}
		},
		func() { p.add(0, Kill, All, p.between(500*time.Millisecond, p.Lease)) },
		p.clockJumps,
	}
	for p.fits(300 * time.Millisecond) {
		acts[p.chance.IntN(len(acts))]()
		p.wait(500*time.Millisecond, 3*time.Second)
	}
}
